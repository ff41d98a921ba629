// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_sim/job.hpp"
#include "mrc_sim/run.hpp"

namespace mrc::tools {

/// Prints the result as a table: one run with a line per number, or a sweep with a row per variant.
void print_report(const Job& job, const std::vector<Outcome>& outcomes, bool interrupted);

/// Everything that was measured in a run, as JSON, indented for json_report(). `simulation`: null
/// if it did not start.
[[nodiscard]] std::string run_json(const Variant& variant, const Outcome& outcome,
                                   const sim::Simulation* simulation);
/// Outcome::json of all runs, and the plots that the scenario asks for: all that scripts/plot
/// needs.
[[nodiscard]] std::string json_report(const Job& job, std::vector<Outcome> outcomes,
                                      bool interrupted);

/// Creates the directory of write_csv(). Throws mrc::Error.
void make_csv_directory(const std::string& directory);
/// Series and messages of a variant as CSV files in that directory. Throws mrc::Error.
void write_csv(const Variant& variant, const sim::Simulation& simulation,
               const std::string& directory);

}  // namespace mrc::tools
