// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc_sim/job.hpp"
#include "mrc_sim/soak/command.hpp"

namespace mrc::bench {

/// What the program is to do.
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
  bool check = false;     ///< read the scenario and say what would run
  std::string directory;  ///< list
  SoakCommand soak;
};

/// Throws bench::Exit after --help and after printing what is wrong with the arguments.
[[nodiscard]] Options parse_options(int argc, char** argv);

/// Where the scenarios that come with the program are; empty if they are not found.
[[nodiscard]] std::string scenario_directory();

}  // namespace mrc::bench
