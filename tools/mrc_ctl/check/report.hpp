// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_ctl/check/judge.hpp"

namespace mrc::check_tool {

/// What the check of one host has shown.
struct Report {
  std::string at;           ///< as the command line names it
  std::string here, there;  ///< names of the hosts; empty: it did not answer
  std::string problem;      ///< why there are no rows; empty: there are
  std::vector<Row> rows;

  [[nodiscard]] bool fits() const noexcept;
};

/// "ok", "warning", "FAILED".
[[nodiscard]] const char* to_string(Verdict verdict) noexcept;
/// A table, and below it the remedies.
[[nodiscard]] std::string report_text(const Report& report);
[[nodiscard]] Json report_json(const Report& report);

}  // namespace mrc::check_tool
