// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "mrc/core/error.hpp"
#include "mrc/json/error.hpp"

namespace mrc::bench {

/// Exit status of a program that was asked for something that can't be.
inline constexpr int kBadOptionStatus = 2;

/// Thrown when the program is to end at once with this status; what there is to say was said.
struct Exit {
  int code;
};

/// Reads the command line, and has `finish()` look at it as a whole. Throws Exit after --help and,
/// with what is wrong told, after a CLI::ParseError of either.
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

/// The whole of a main(): what `run()` returns; if it throws, the error is told in the program's
/// name and the status is that of a bad option where the user asked for it (options, a file that
/// is wrong), else `failed`.
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
