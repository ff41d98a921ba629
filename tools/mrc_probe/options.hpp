// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "probe/sweep.hpp"

namespace mrc::probe_tool {

using namespace probe;

/// The command line.
struct Options {
  Config config;                ///< from MRC_*; all of it counts only with --answer
  std::vector<std::string> to;  ///< names of hosts; empty: all
  bool loops = true;            ///< loops are probed
  bool hosts = true;            ///< paths to other hosts are probed
  unsigned tries = 3;
  bool small = false;  ///< no probes of full size
  bool load = false;   ///< trains of them as well
  SweepOptions sweep;
  bool answer = false;  ///< only answer others
  bool watch = false;
  Duration interval = std::chrono::seconds(1);
  std::string json_file, deny_file;  ///< "-": standard output
  bool verbose = false;

  /// Something else is written to standard output.
  [[nodiscard]] bool quiet() const { return json_file == "-" || deny_file == "-"; }
};

/// Throws tools::Exit after --help and after printing what is wrong with the arguments, and
/// mrc::Error for what is wrong with the environment.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace mrc::probe_tool
