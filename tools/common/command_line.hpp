// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "common/program.hpp"
#include "common/terminal.hpp"
#include "mrc/version.hpp"

/// The options of a program, read by CLI11. Included by options.cpp alone, since CLI11 takes ten
/// seconds to compile.
namespace mrc::tools {

/// Help in the width of the terminal.
class FittedFormatter : public CLI::Formatter {
 public:
  FittedFormatter() { column_width(28); }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, std::move(name));
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return fit(CLI::Formatter::make_help(app, std::move(name), mode), output_width());
  }
};

inline void prepare(CLI::App& app) {
  app.formatter(std::make_shared<FittedFormatter>());
  app.get_help_ptr()->description("Print this help and end");
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) prepare(*command);
}

/// Parses the command line and calls `finish()` to validate it as a whole. Throws Exit after --help
/// or --version and, after printing the message, for a CLI::ParseError of either.
template <class Finish>
void parse_command_line(CLI::App& app, int argc, char** argv, Finish finish) {
  prepare(app);
  app.set_version_flag("--version",
                       fmt::format("{} {} (OpenMRC)", app.get_name(), version_string()),
                       "Print the version and end");
  try {
    app.parse(argc, argv);
    finish();
  } catch (const CLI::Success& help_or_version) {
    throw Exit{app.exit(help_or_version)};
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{0}: {1}\nTry '{0} --help'.\n", app.get_name(), error.what());
    throw Exit{kBadOptionStatus};
  }
}

inline void parse_command_line(CLI::App& app, int argc, char** argv) {
  parse_command_line(app, argc, argv, [] {});
}

}  // namespace mrc::tools
