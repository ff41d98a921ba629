// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mrc::tools {

/// The subcommand.
enum class Command : std::uint8_t { up, down, show, exec, link, node, set, write_configs, wire };

/// The command line.
struct Options {
  Command command = Command::up;
  std::string prefix = "mrc";
  std::string file;                ///< the description; down, wire: or the fabric's name
  std::string node, other;         ///< exec, switch: the node; link: both of its ends
  std::string state;               ///< link, switch: up, down or restart
  std::vector<std::string> words;  ///< exec: the program with its arguments; set: the conditions
  std::string ports;               ///< set: which
  bool json = false, watch = false;
  std::string format, directory;  ///< export
};

/// Throws tools::Exit after --help and after printing an error in the arguments.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace mrc::tools
