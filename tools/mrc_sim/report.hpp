// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_sim/job.hpp"
#include "mrc_sim/run.hpp"

namespace mrc::tools {

/// Prints the result as a table: one run with a line per number, or a sweep with a row per variant.
void print_report(const Job& job, const std::vector<Outcome>& outcomes, bool interrupted);

/// Everything that was measured and the plots that the scenario asks for, as JSON: all that
/// scripts/plot needs.
[[nodiscard]] std::string json_report(const Job& job, const std::vector<Outcome>& outcomes,
                                      bool interrupted);

/// Series and messages of each variant as CSV files in a directory, which is created. Throws
/// mrc::Error.
void write_csv(const Job& job, const std::vector<Outcome>& outcomes, const std::string& directory);

}  // namespace mrc::tools
