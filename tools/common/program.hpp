// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "mrc/core/error.hpp"
#include "mrc/json/error.hpp"

namespace mrc::bench {

/// Exit status after invalid options or input.
inline constexpr int kBadOptionStatus = 2;

/// Thrown to end the program at once with this status; messages have been printed.
struct Exit {
  int code;
};

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

/// The body of main(): returns what `run()` returns; if it throws, prints the error with the
/// program's name and returns kBadOptionStatus for invalid options or input files, else `failed`.
template <class Run>
[[nodiscard]] int run_main(const char* program, Run run, int failed = 1) {
  const auto fail = [&](const std::exception& error, int status) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return status;
  };
  try {
    return run();
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const json_file::FileError& error) {
    return fail(error, kBadOptionStatus);
  } catch (const Error& error) {
    return fail(error, error.code() == Errc::invalid_argument ? kBadOptionStatus : failed);
  } catch (const std::exception& error) {
    return fail(error, failed);
  }
}

}  // namespace mrc::bench
