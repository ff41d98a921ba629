// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc_sim/job.hpp"
#include "mrc_sim/soak/command.hpp"

namespace mrc::tools {

/// The subcommand.
enum class Command : std::uint8_t { run, soak, list };

/// The command line.
struct Options {
  Command command = Command::run;
  std::string file;  ///< run
  std::vector<Override> overrides;
  std::optional<std::uint64_t> seed;
  unsigned threads = 1;
  std::string json_file, csv_directory;
  bool quiet = false;
  bool check = false;     ///< only read the scenario and print what would run
  std::string directory;  ///< list
  SoakCommand soak;
};

/// Throws tools::Exit after --help and after printing an error in the arguments.
[[nodiscard]] Options parse_options(int argc, char** argv);

/// Directory of the scenarios shipped with the program; empty if it is not found.
[[nodiscard]] std::string scenario_directory();

}  // namespace mrc::tools
