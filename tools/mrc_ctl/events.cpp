// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

constexpr std::string_view kEvents[] = {"path_bad", "path_good", "plane_down", "plane_up",
                                        "qp_error", "last_wqe",  "cq_overrun", "srq_limit"};

/// Whether `kind` stands for `event`: it is its name, or the first word of that.
bool names(std::string_view kind, std::string_view event) {
  return event == kind || (event.starts_with(kind) && event.substr(kind.size()).starts_with('_'));
}

}  // namespace

bool is_event_kind(const std::string& kind) {
  return std::any_of(std::begin(kEvents), std::end(kEvents),
                     [&kind](std::string_view event) { return names(kind, event); });
}

bool wants_event(const Options& o, const Json& event, double now) {
  const std::string name = event.value("event", std::string());
  if (name == "dropped") return true;  // some of those that are wanted, perhaps
  if (!o.kinds.empty() && std::none_of(o.kinds.begin(), o.kinds.end(),
                                       [&](const std::string& kind) { return names(kind, name); }))
    return false;
  if (o.in_plane) {
    const auto plane = event.find("plane");
    if (plane == event.end() || !plane->is_number() || *plane != *o.in_plane) return false;
  }
  if (!o.since) return true;
  const auto time = event.find("time");
  return time != event.end() && time->is_number() &&
         time->get<double>() >= now - std::chrono::duration<double>(*o.since).count();
}

std::string event_text(const Json& event) {
  const auto field = [&event](const char* name) {
    return event.contains(name) ? event[name] : Json();
  };
  const Json time = field("time");
  std::string text =
      fmt::format("{}  {:<12}", clock_text(time.is_number() ? time.get<double>() : -1),
                  printable(event.value("event", std::string("-"))));
  for (const auto& [name, value] : event.items()) {
    if (name == "time" || name == "event" || name == "number") continue;
    // An EV of a profile is more than the number that SACKs name it by; others are just that.
    if ((name == "value" || name == "port") && !event.contains("profile")) continue;
    text +=
        fmt::format(" {}={}", printable(name),
                    name == "ev" && value.is_number_integer()
                        ? fmt::format("0x{:x}", value.get<std::uint64_t>())
                        : printable(value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return text;
}

}  // namespace mrc::ctl_tool
