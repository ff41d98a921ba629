// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/program.hpp"

/// The options of a program, read by CLI11. Included by options.cpp alone, since CLI11 takes ten
/// seconds to compile.
namespace mrc::tools {

/// Parses the command line and calls `finish()` to validate it as a whole. Throws Exit after --help
/// and, after printing the message, for a CLI::ParseError of either.
template <class Finish>
void parse_command_line(CLI::App& app, int argc, char** argv, Finish finish) {
  try {
    app.parse(argc, argv);
    finish();
  } catch (const CLI::CallForHelp& help) {
    throw Exit{app.exit(help)};
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{0}: {1}\nTry '{0} --help'.\n", app.get_name(), error.what());
    throw Exit{kBadOptionStatus};
  }
}

inline void parse_command_line(CLI::App& app, int argc, char** argv) {
  parse_command_line(app, argc, argv, [] {});
}

}  // namespace mrc::tools
