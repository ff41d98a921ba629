// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/faults/schedule.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// What is wrong with a schedule, in words.
struct FaultMistake : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reports an item that can't be used.
[[noreturn]] inline void bad_fault(std::string_view item, const std::string& why) {
  throw FaultMistake("fault '" + std::string(item) + "': " + why +
                     "; an example of valid faults is 'loss=0.001;plane=1,down@2s-4s'");
}

/// Without blanks at both ends.
[[nodiscard]] inline std::string_view trim_spaces(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Returns the text before the next `mark`, and leaves in `text` what follows the mark.
[[nodiscard]] inline std::string_view next_part(std::string_view& text, char mark) noexcept {
  const std::size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return trim_spaces(part);
}

/// A probability. Throws FaultMistake that names `item`.
[[nodiscard]] inline double fault_rate(std::string_view item, std::string_view text) {
  double rate = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (failed != std::errc{} || end != text.data() + text.size() || !(rate >= 0 && rate <= 1))
    bad_fault(item, "a rate must be a number from 0 to 1");
  return rate;
}

/// A number from 0 to `limit`. Throws FaultMistake that names `item`.
[[nodiscard]] inline unsigned fault_index(std::string_view item, std::string_view text,
                                          unsigned limit) {
  unsigned index = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (failed != std::errc{} || end != text.data() + text.size() || index > limit)
    bad_fault(item, "must be a number from 0 to " + std::to_string(limit));
  return index;
}

/// A time with its unit, up to `limit_s` seconds. Throws FaultMistake that names `item`.
[[nodiscard]] inline Duration fault_time(std::string_view item, std::string_view text,
                                         double limit_s) {
  double number = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double ns = 0;
  if (unit == "ns") ns = 1;
  if (unit == "us") ns = 1e3;
  if (unit == "ms") ns = 1e6;
  if (unit == "s") ns = 1e9;
  if (failed != std::errc{} || ns == 0 || !(number >= 0 && number * ns <= limit_s * 1e9))
    bad_fault(item, "a time must be a number with the unit ns, us, ms or s, up to " +
                        std::to_string(static_cast<long>(limit_s)) + " s");
  return Duration{std::llround(number * ns)};
}

/// Reads one item ("loss=0.1", "down") into the fault. True: the item is a fault; false: a target.
inline bool read_fault_item(std::string_view item, TargetedFault& fault) {
  constexpr double kLongestDelay = 60;
  std::string_view text = item;
  const bool has_value = item.find('=') != std::string_view::npos;
  const std::string_view key = next_part(text, '=');
  text = trim_spaces(text);
  FaultSpec& spec = fault.spec;
  struct Rate {
    const char* name;
    double FaultSpec::*member;
  };
  static constexpr Rate kRates[] = {{"loss", &FaultSpec::loss},
                                    {"duplicate", &FaultSpec::duplicate},
                                    {"reorder", &FaultSpec::reorder},
                                    {"corrupt", &FaultSpec::corrupt},
                                    {"ecn", &FaultSpec::ecn},
                                    {"trim", &FaultSpec::trim},
                                    {"trim_last_hop", &FaultSpec::trim_last_hop}};
  for (const Rate& rate : kRates) {
    if (has_value && key == rate.name) {
      spec.*rate.member = fault_rate(item, text);
      return true;
    }
  }
  if (has_value && key == "plane") {
    fault.target.plane = static_cast<Plane>(fault_index(item, text, kMaxPlanes - 1));
    return false;
  } else if (has_value && key == "path") {
    fault.target.path = static_cast<std::uint16_t>(fault_index(item, text, 65535));
    return false;
  } else if (has_value && key == "delay") {
    spec.delay = fault_time(item, text, kLongestDelay);
  } else if (has_value && key == "jitter") {
    spec.jitter = fault_time(item, text, kLongestDelay);
  } else if (!has_value && key == "blackhole") {
    spec.black_hole = true;
  } else if (!has_value && key == "down") {
    spec.down = true;
  } else {
    bad_fault(item,
              "allowed are plane=N, path=N, loss=, duplicate=, reorder=, corrupt=, ecn=, trim=, "
              "trim_last_hop= with a rate, delay=, jitter= with a time, blackhole, down");
  }
  return true;
}

/// Reads a window of time, "2s-4s" or "1s-".
inline void read_fault_window(std::string_view window, Duration& from, Duration& to) {
  constexpr double kLongestRun = 1e6;  // 11 days, so that no sum overflows
  const std::size_t dash = window.find('-');
  if (dash == std::string_view::npos)
    bad_fault(window, "a window of time must be FROM-TO or FROM-, such as 2s-4s");
  const std::string_view end = trim_spaces(window.substr(dash + 1));
  from = fault_time(window, trim_spaces(window.substr(0, dash)), kLongestRun);
  if (!end.empty()) to = fault_time(window, end, kLongestRun);
  if (from >= to) bad_fault(window, "the window must end after it starts");
}

}  // namespace detail

std::string to_string(const FaultTarget& target) {
  std::string text;
  if (target.plane) text += "plane=" + std::to_string(*target.plane);
  if (target.path) text += (text.empty() ? "path=" : ",path=") + std::to_string(*target.path);
  return text;
}

std::vector<TargetedFault> FaultSchedule::all() const {
  std::vector<TargetedFault> faults;
  for (const Entry& entry : entries_) faults.push_back(entry.fault);
  return faults;
}

std::vector<TargetedFault> FaultSchedule::active_at(Duration t) const {
  std::vector<TargetedFault> active;
  for (const Entry& entry : entries_) {
    if (t < entry.from || t >= entry.to) continue;
    const auto same = std::find_if(active.begin(), active.end(), [&](const TargetedFault& f) {
      return f.target == entry.fault.target;
    });
    if (same == active.end())
      active.push_back(entry.fault);
    else
      same->spec = combine(same->spec, entry.fault.spec);
  }
  return active;
}

FaultSpec FaultSchedule::port_fault(Duration t, Plane plane) const {
  FaultSpec spec;
  for (const TargetedFault& fault : active_at(t))
    if (!fault.target.path && fault.target.plane.value_or(plane) == plane)
      spec = combine(spec, fault.spec);
  return spec;
}

FaultSpec FaultSchedule::path_fault(Duration t, Plane plane, std::uint16_t path) const {
  FaultSpec spec;
  for (const TargetedFault& fault : active_at(t))
    if (fault.target.path == path && fault.target.plane.value_or(plane) == plane)
      spec = combine(spec, fault.spec);
  return spec;
}

Duration FaultSchedule::next_change(Duration t) const noexcept {
  Duration next = Duration::max();
  for (const Entry& entry : entries_) {
    if (entry.from > t) next = std::min(next, entry.from);
    if (entry.to > t) next = std::min(next, entry.to);
  }
  return next;
}

FaultSchedule FaultSchedule::read(std::string_view text) {
  FaultSchedule schedule;
  while (!text.empty()) {
    std::string_view items = detail::next_part(text, ';');
    if (items.empty()) continue;
    Entry entry;
    if (const std::size_t at = items.find('@'); at != std::string_view::npos) {
      detail::read_fault_window(detail::trim_spaces(items.substr(at + 1)), entry.from, entry.to);
      items = items.substr(0, at);
    }
    const std::string_view whole = items;
    bool says_what = false;
    while (!items.empty())
      says_what |= detail::read_fault_item(detail::next_part(items, ','), entry.fault);
    if (!says_what) detail::bad_fault(whole, "says where or when, but not what goes wrong");
    schedule.entries_.push_back(entry);
  }
  return schedule;
}

FaultSchedule FaultSchedule::parse(std::string_view text) {
  try {
    return read(text);
  } catch (const detail::FaultMistake& mistake) {
    throw Error(Errc::invalid_argument, mistake.what());
  }
}

std::string FaultSchedule::mistake_in(std::string_view text) {
  try {
    (void)read(text);
  } catch (const detail::FaultMistake& mistake) {
    return mistake.what();
  }
  return {};
}

bool FaultSpec::valid() const noexcept {
  const auto rate = [](double p) { return p >= 0 && p <= 1; };
  const auto time = [](Duration d) { return d >= Duration{} && d <= std::chrono::minutes{1}; };
  return rate(loss) && rate(duplicate) && rate(reorder) && rate(corrupt) && rate(ecn) &&
         rate(trim) && rate(trim_last_hop) && time(delay) && time(jitter);
}

FaultSpec combine(const FaultSpec& a, const FaultSpec& b) noexcept {
  const auto either = [](double p, double q) { return p + q - p * q; };
  FaultSpec c;
  c.loss = either(a.loss, b.loss);
  c.duplicate = either(a.duplicate, b.duplicate);
  c.reorder = either(a.reorder, b.reorder);
  c.corrupt = either(a.corrupt, b.corrupt);
  c.ecn = either(a.ecn, b.ecn);
  c.trim = either(a.trim, b.trim);
  c.trim_last_hop = either(a.trim_last_hop, b.trim_last_hop);
  c.delay = a.delay + b.delay;
  c.jitter = a.jitter + b.jitter;
  c.black_hole = a.black_hole || b.black_hole;
  c.down = a.down || b.down;
  return c;
}

void check(const FaultSpec& spec) {
  if (!spec.valid())
    throw Error(Errc::invalid_argument,
                "fault: rates must be from 0 to 1, delay and jitter from 0 to 60 s");
}

}  // namespace mrc::inline v0_1::port
