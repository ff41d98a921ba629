// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>

#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

using control::has_field;

/// Those that option --kind may name by their first word stand side by side.
constexpr std::string_view kEvents[] = {"path_bad", "path_good", "plane_down", "plane_up",
                                        "qp_error", "last_wqe",  "cq_overrun", "srq_limit"};

std::string_view first_word(std::string_view event) {
  return event.substr(0, event.find('_'));
}

/// Whether `kind` stands for `event`: it is its name, or the first word of that.
bool names(std::string_view kind, std::string_view event) {
  return event == kind || (event.starts_with(kind) && event.substr(kind.size()).starts_with('_'));
}

}  // namespace

bool is_event_kind(const std::string& kind) {
  return std::any_of(std::begin(kEvents), std::end(kEvents),
                     [&kind](std::string_view event) { return names(kind, event); });
}

std::string event_kinds_text() {
  std::string text;
  for (std::size_t i = 0; i < std::size(kEvents); ++i) {
    text += i == 0 ? "" : ", ";
    const std::string_view word = first_word(kEvents[i]);
    if (i + 1 < std::size(kEvents) && first_word(kEvents[i + 1]) == word) {
      text += fmt::format("{} ({}, {})", word, kEvents[i], kEvents[i + 1]);
      ++i;
    } else {
      text += kEvents[i];
    }
  }
  return text;
}

bool wants_event(const Options& o, const Json& event, double now) {
  const std::string name = text_in(event, "event");
  if (name == "dropped") return true;  // some of those that are wanted, perhaps
  if (!o.kinds.empty() && std::none_of(o.kinds.begin(), o.kinds.end(),
                                       [&](const std::string& kind) { return names(kind, name); }))
    return false;
  if (o.in_plane && (!has_field(event, "plane", &Json::is_number) || event["plane"] != *o.in_plane))
    return false;
  return !o.since ||
         (has_field(event, "time", &Json::is_number) &&
          event["time"].get<double>() >= now - std::chrono::duration<double>(*o.since).count());
}

std::string event_text(const Json& event) {
  const double time = has_field(event, "time", &Json::is_number) ? event["time"].get<double>() : -1;
  std::string text = fmt::format("{}  {:<12}", clock_text(time), cell(event, "event"));
  if (!event.is_object()) return text;
  for (const auto& [name, value] : event.items()) {
    if (name == "time" || name == "event" || name == "number") continue;
    // An EV of a profile is more than the number that SACKs name it by; others are just that.
    if ((name == "value" || name == "port") && !event.contains("profile")) continue;
    text += fmt::format(" {}={}", printable(name),
                        name == "ev" && value.is_number_integer() && value >= 0
                            ? fmt::format("0x{:x}", count_in(event, "ev"))
                            : value_text(value));
  }
  return text;
}

}  // namespace mrc::ctl_tool
