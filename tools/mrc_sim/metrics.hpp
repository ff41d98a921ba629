// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/sim/simulation.hpp"

namespace mrc::tools {

/// Names of the metrics that plots and tables take from a summary; the last two, "flow N" and
/// "goodput hN" (goodput of that flow or host, Gb/s), are patterns.
[[nodiscard]] std::vector<std::string> metric_names();
[[nodiscard]] bool is_metric(std::string_view name);
/// Value of a metric; needs is_metric(). NaN if the run has no such value.
[[nodiscard]] double metric(const sim::Summary& summary, std::string_view name);
/// Its unit, for axes.
[[nodiscard]] std::string metric_unit(std::string_view name);

/// Control packets by kind, with names for people.
[[nodiscard]] std::vector<std::pair<const char*, std::uint64_t>> control_kinds(
    const sim::ControlStats& control);

/// The message of an error, without the text of its code.
[[nodiscard]] inline std::string reason(const Error& error) {
  std::string text = error.what();
  const std::string code = ": " + error.code().message();
  if (error.code().category() == error_category() && text.ends_with(code))
    text.resize(text.size() - code.size());
  return text;
}

[[nodiscard]] inline double microseconds(Duration d) noexcept {
  return static_cast<double>(d.count()) / 1000;
}

}  // namespace mrc::tools
