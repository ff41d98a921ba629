// SPDX-License-Identifier: Apache-2.0
#include "mrc_probe/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "common/command_line.hpp"
#include "mrc/core/value_text.hpp"

namespace mrc::probe_tool {
namespace {

using namespace std::chrono_literals;

constexpr const char* kFooter =
    R"(Loops lead back to this host and need nobody's help; paths to other hosts need
a device that is open there; `mrc_probe --answer` opens one. In ECMP fabrics
there are no loops, and a path is one of MRC_PATHS EVs of each plane.

Exit status: 0 all alive (lossy, at worst), 1 something is dead, narrow (lets small packets through
only), slow (--load) or a host silent, 2 bad options, 3 can't run, 130 interrupted.
docs/probe.md says how parts are found, and has the fields of the JSON.)";

void add_duration(CLI::App& app, const std::string& name, Duration& to, Duration least,
                  Duration most, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [name, &to, least, most](const std::string& text) {
           const auto value = parse_duration(text);
           if (!value || *value < least || *value > most)
             throw CLI::ValidationError(
                 fmt::format("{} {}: must be a time such as 500us, 10ms or 2s, {} to {}", name,
                             text, format_duration(least), format_duration(most)));
           to = *value;
         },
         help)
      ->type_name("TIME");
}

void add_what(CLI::App& app, Options& o) {
  app.add_option("fabric", o.config.fabric,
                 "Description of the fabric (docs/fabric.md; default: MRC_FABRIC)")
      ->type_name("FABRIC");
  app.add_option("--host", o.config.host,
                 "Which host this is (default: MRC_HOST, or the one with this machine's addresses)")
      ->type_name("NAME");
  app.add_option("--to", o.to, "Probe paths to these hosts (default all)")
      ->delimiter(',')
      ->type_name("HOST");
  app.add_option_function<std::string>(
         "--only",
         [&o](const std::string& what) {
           if (what != "loops" && what != "hosts")
             throw CLI::ValidationError(
                 fmt::format("--only {}: must be loops (back to this host) or hosts", what));
           o.loops = what == "loops";
           o.hosts = what == "hosts";
         },
         "Probe only loops, or only paths to hosts")
      ->type_name("loops|hosts");
  app.add_flag("--answer", o.answer, "Answer the probes of other hosts, until Ctrl-C");
}

void add_how(CLI::App& app, Options& o) {
  app.add_option_function<std::string>(
         "--tries",
         [&o](const std::string& text) {
           const auto value = parse_integer<unsigned>(text);
           if (!value || *value < 1 || *value > 1000)
             throw CLI::ValidationError(fmt::format("--tries {}: must be 1 to 1000", text));
           o.tries = *value;
         },
         "Probes per path (default 3); 8 times as many where some are lost")
      ->type_name("N");
  auto* small = app.add_flag("--small", o.small, "Small probes only, none of full size (MRC_MTU)");
  app.add_flag("--load", o.load,
               "Trains of packets of full size as well: finds links that are slow and lose nothing")
      ->excludes(small);
  add_duration(app, "--timeout", o.sweep.timeout, 100us, 10s,
               "How long to wait for an answer (default 10ms)");
  app.add_option_function<std::string>(
         "--rate",
         [&o](const std::string& text) {
           const auto value = parse_real(text);
           if (!value || *value < 1 || *value > 1e6)
             throw CLI::ValidationError(fmt::format("--rate {}: must be 1 to 1000000", text));
           o.sweep.rate = *value;
         },
         "Probes per second over all paths (default 10000)")
      ->type_name("N");
}

void add_output(CLI::App& app, Options& o) {
  app.add_flag("--watch", o.watch, "Sweep again and again, print what changes, until Ctrl-C");
  add_duration(app, "--interval", o.interval, 10ms, 1h,
               "Time from one sweep to the next of --watch (default 1s)");
  app.add_option("--json", o.json_file, "Write all results as JSON; -: to standard output")
      ->type_name("FILE");
  app.add_option(
         "--deny", o.deny_file,
         "Write the description with what is dead added to \"deny\"; -: print only \"deny\"")
      ->type_name("FILE");
  app.add_flag("--verbose", o.verbose, "List all paths");
}

void finish(const Options& o, const CLI::App& app) {
  if (o.config.fabric.empty())
    throw CLI::ValidationError("no fabric is named: give its description, or set MRC_FABRIC");
  for (const char* name :
       {"--to", "--only", "--small", "--load", "--watch", "--json", "--deny", "--verbose"})
    if (o.answer && app.count(name) > 0)
      throw CLI::ValidationError(fmt::format("{}: not with --answer, which probes nothing", name));
  if (!o.hosts && !o.to.empty())
    throw CLI::ValidationError("--to: not with --only loops, which probes no paths to hosts");
  if (!o.watch && app.count("--interval") > 0)
    throw CLI::ValidationError("--interval: only with --watch");
  if (o.json_file == "-" && o.deny_file == "-")
    throw CLI::ValidationError("--json and --deny: only one of them can be -");
  if (o.watch && o.quiet())
    throw CLI::ValidationError("--watch: not with -, standard output is for what changes");
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options o;
  o.config = Config::from_environment();
  CLI::App app("Probes all paths of a fabric from this host and says what is dead.", "mrc_probe");
  app.footer(kFooter);
  add_what(app, o);
  add_how(app, o);
  add_output(app, o);
  tools::parse_command_line(app, argc, argv, [&] { finish(o, app); });
  return o;
}

}  // namespace mrc::probe_tool
