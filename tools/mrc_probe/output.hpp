// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/changes.hpp"
#include "probe/report.hpp"

namespace mrc::probe_tool {

using namespace probe;

/// "12:00:03.512", local time.
[[nodiscard]] std::string clock_text(WallTime time);

/// The least, the middle (of two the larger one) and the largest, in microseconds.
struct RttSpan {
  double least = 0, median = 0, largest = 0;
};
/// Nothing if there are none.
[[nodiscard]] std::optional<RttSpan> span_of(const std::vector<Duration>& rtts);

/// A sweep for people: paths by peer and plane, those that fail one by one, and what is wrong.
void print_report(const Description& d, const Report& report, bool verbose);

/// A sweep for programs; `changes` is what --watch has seen. docs/probe.md has the fields.
[[nodiscard]] std::string json_report(const Description& d, const Report& report,
                                      const std::vector<Change>& changes);

/// What is dead, as the list "deny" of a description, with what it has denied before.
[[nodiscard]] std::string deny_list(const Description& d, const Verdict& verdict);

/// The description in d.file, with that list. Comments are lost. Throws mrc::Error.
[[nodiscard]] std::string denying_description(const Description& d, const Verdict& verdict);

}  // namespace mrc::probe_tool
