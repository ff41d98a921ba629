// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/program.hpp"
#include "common/terminal.hpp"
#include "mrc/fabric/json.hpp"
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
  /// Two blanks at least separate the columns: a name that leaves room for one stands alone.
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string text = CLI::Formatter::make_option(option, positional);
    const std::size_t width = get_column_width();
    if (text.size() > width && text[width - 1] == ' ' && text[width - 2] != ' ' &&
        text.find('\n') >= width)
      text.replace(width - 1, 1, "\n" + std::string(width, ' '));
    return text;
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

/// What is wrong with a command line without a command, or with one that does not exist.
[[nodiscard]] inline std::string missing_command(const CLI::App& app) {
  const CLI::App* of = &app;  // the command that wants a further one
  while (!of->get_subcommands().empty()) of = of->get_subcommands().back();
  json_file::Names names;
  for (const CLI::App* command : of->get_subcommands([](const CLI::App*) { return true; }))
    names.insert(command->get_name());
  for (const std::string& word : app.remaining(true)) {
    if (word.starts_with('-')) continue;
    const std::string nearest = json_file::nearest_name(word, names);
    return fmt::format("there is no command '{}'{}", json_file::printable(word),
                       nearest.empty() ? ", but " + json_file::joined(names)
                                       : fmt::format("; did you mean '{}'?", nearest));
  }
  return "a command is missing: " + json_file::joined(names);
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
    const bool no_command = std::string_view(error.what()).ends_with("ubcommand is required");
    fmt::print(stderr, "{0}: {1}\nTry '{0} --help'.\n", app.get_name(),
               no_command ? missing_command(app) : error.what());
    throw Exit{kBadOptionStatus};
  }
}

inline void parse_command_line(CLI::App& app, int argc, char** argv) {
  parse_command_line(app, argc, argv, [] {});
}

}  // namespace mrc::tools
