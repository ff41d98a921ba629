// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/files.hpp"
#include "common/interrupt.hpp"
#include "common/program.hpp"
#include "mrc_sim/options.hpp"
#include "mrc_sim/report.hpp"
#include "mrc_sim/run.hpp"

namespace mrc::tools {
namespace {

int list_scenarios(const std::string& wanted) {
  const std::string directory = wanted.empty() ? scenario_directory() : wanted;
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  if (error) throw Error(error, fmt::format("directory '{}'", directory));
  std::sort(files.begin(), files.end());
  std::size_t width = 0;
  for (const auto& file : files) width = std::max(width, file.stem().string().size());
  fmt::print("In {}:\n", directory);
  for (const auto& file : files)
    fmt::print("  {:<{}}  {}\n", file.stem().string(), width, title_of(file.string()));
  return 0;
}

int run_scenario(const Options& o) {
  const Job job = read_job(o.file, o.overrides, o.seed);
  if (o.check) {
    fmt::print("{}: {}; {} run{}\n", o.file, job.title, job.variants.size(),
               job.variants.size() == 1 ? "" : "s");
    return 0;
  }
  check_writable(o.json_file);
  catch_signals();
  if (!o.csv_directory.empty()) make_csv_directory(o.csv_directory);
  const auto display = o.quiet                      ? ProgressDisplay::none
                       : isatty(STDERR_FILENO) != 0 ? ProgressDisplay::line
                                                    : ProgressDisplay::lines;
  auto outcomes =
      run_job(job, o.threads, display,
              [&](const Variant& variant, Outcome& outcome, const sim::Simulation& simulation) {
                if (!o.json_file.empty()) outcome.json = run_json(variant, outcome, &simulation);
                if (!o.csv_directory.empty()) write_csv(variant, simulation, o.csv_directory);
              });
  const bool interrupted = g_interrupted;
  print_report(job, outcomes, interrupted);
  if (!o.json_file.empty())
    write_file(o.json_file, json_report(job, std::move(outcomes), interrupted));
  if (interrupted) fmt::print(stderr, "mrc_sim: interrupted; the results are partial\n");
  return interrupted ? kInterruptedStatus : 0;
}

int run(const Options& o) {
  switch (o.command) {
    case Command::run:
      return run_scenario(o);
    case Command::soak:
      return run_soak(o.soak);
    case Command::list:
      return list_scenarios(o.directory);
  }
  return 1;
}

}  // namespace
}  // namespace mrc::tools

/// mrc_sim: scenarios of the fabric simulator, and its soak.
int main(int argc, char** argv) {
  return mrc::tools::run_main(
      "mrc_sim", [&] { return mrc::tools::run(mrc::tools::parse_options(argc, argv)); });
}
