// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "common/command_line.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"

namespace mrc::tools {
namespace {

constexpr const char* kConditions =
    R"(LINK is a direction between nodes, 'h0>p1t0-0' (quote it: the shell has a use for >), or
h0-p1t0-0 for both; or one of host-t0, t0-host, t0-t1, t1-t0: all ports from the first kind of node
to the second; or all.

  rate=1Gbit    a shaped port with a queue, 100kbit to 100Gbit; off
  drop=256K     bytes of data that the queue holds; what comes then is dropped (default)
  trim=256K     the same, but what may be trimmed is cut to its headers and goes first
  lasthop=on    trimmed packets say that it was the last hop (default towards hosts)
  ctl=1M        bytes of control and trimmed packets that the queue holds
  ecn=64K:192K  CE marks from the first on, all packets from the second on; off
  delay=50us    time that packets take to the other end, 1us to 10s; off
  loss=0.01     chance of losing a packet       ce=0.1   chance of a CE mark
  blackhole     loses everything, as loss=1     clear    none of all this

What is not named stays as it is. Counters are in `mrc_fabric show`.)";

void add_file(CLI::App& command, Options& o) {
  command.add_option("file", o.file, "Description of the fabric (docs/fabric.md)")
      ->required()
      ->type_name("FILE");
}

CLI::App& add_command(CLI::App& app, Options& o, Command which, const char* name,
                      const char* about) {
  CLI::App& command = *app.add_subcommand(name, about);
  command.callback([&o, which] { o.command = which; });
  command.fallthrough();  // --prefix may follow the command
  return command;
}

void add_up_and_down(CLI::App& app, Options& o) {
  add_file(add_command(app, o, Command::up, "up", "Build the fabric, or repair it"), o);
  add_command(app, o, Command::down, "down", "Remove the fabric, whatever there is of it")
      .add_option("fabric", o.file, "Its description, or its name")
      ->required()
      ->type_name("FILE|NAME");
}

void add_show(CLI::App& app, Options& o) {
  CLI::App& show = add_command(app, o, Command::show, "show", "Show links, conditions, counters");
  add_file(show, o);
  CLI::Option* json = show.add_flag("--json", o.json, "As JSON");
  show.add_flag("--watch", o.watch, "With rates, once a second, until Ctrl-C")->excludes(json);
}

void add_exec(CLI::App& app, Options& o) {
  CLI::App& exec = add_command(app, o, Command::exec, "exec", "Run a program on a host or switch");
  add_file(exec, o);
  exec.add_option("node", o.node, "Host or switch")->required()->type_name("NODE");
  exec.add_option("command", o.words, "The program and its arguments, after --")
      ->required()
      ->type_name("-- PROGRAM");
  exec.footer(
      "It runs with MRC_FABRIC=FILE and, on a host, MRC_HOST=NODE in its environment. Its "
      "exit status is that of the program.");
}

void add_link_and_switch(CLI::App& app, Options& o) {
  CLI::App& link = add_command(app, o, Command::link, "link", "Take a link down, or up again");
  add_file(link, o);
  link.add_option("from", o.node, "The end whose interface goes down")->type_name("A");
  link.add_option("to", o.other, "The end that loses its carrier")->type_name("B");
  link.add_option("state", o.state, "down or up")
      ->check(CLI::IsMember({"down", "up"}))
      ->type_name("STATE");
  CLI::App& node = add_command(app, o, Command::node, "switch", "Take a switch down, or up again");
  add_file(node, o);
  node.add_option("node", o.node, "The switch")->type_name("NODE");
  node.add_option("state", o.state, "down or up: all its links; restart: made anew")
      ->check(CLI::IsMember({"down", "up", "restart"}))
      ->type_name("STATE");
}

void add_set(CLI::App& app, Options& o) {
  CLI::App& set = add_command(app, o, Command::set, "set", "Set conditions of switch ports");
  add_file(set, o);
  set.add_option("link", o.ports, "Ports to change")->required()->type_name("LINK");
  set.add_option("conditions", o.words, "Conditions")->required()->type_name("KEY=VALUE");
  set.footer(kConditions);
}

void add_export(CLI::App& app, Options& o) {
  CLI::App& write = add_command(app, o, Command::write_configs, "export",
                                "Write the configuration of every switch for a switch's system");
  add_file(write, o);
  write.add_option("--format", o.format, "sonic: config_db.json; frr: frr.conf")
      ->required()
      ->check(CLI::IsMember({"sonic", "frr"}))
      ->type_name("FORMAT");
  write.add_option("--out", o.directory, "Output directory, one folder per switch")
      ->required()
      ->type_name("DIR");
}

/// The tool's own background process; not for users.
void add_wire(CLI::App& app, Options& o) {
  CLI::App& wire = add_command(app, o, Command::wire, "wire", "Hold packets of delayed links");
  wire.group("");
  wire.add_option("fabric", o.file, "Name of the fabric")->required()->type_name("NAME");
}

/// For a command that lacks a word, since FILE was forgotten or the names are not known.
std::string what_there_is(const std::string& file) {
  if (std::filesystem::is_regular_file(file))
    return fmt::format("in {} there are {}", file, nodes_text(fabric::read(file)));
  const std::vector<std::string> fabrics = known_fabrics();
  return fmt::format("there is no file '{}', and {}", file,
                     fabrics.empty() ? "no fabric is up"
                                     : fmt::format("these fabrics are up: {}; FILE is the "
                                                   "description that one of them was made from",
                                                   fmt::join(fabrics, ", ")));
}

void finish(const Options& o) {
  const bool link = o.command == Command::link, node = o.command == Command::node;
  if ((link || node) && o.state.empty())
    throw CLI::ValidationError(fmt::format(
        "needs {}; {}", link ? "link FILE A B down|up" : "switch FILE NODE down|up|restart",
        what_there_is(o.file)));
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options o;
  CLI::App app("Builds multi-plane fabrics out of network namespaces, with real SRv6 forwarding.",
               "mrc_fabric");
  app.require_subcommand(1);
  app.add_option("--prefix", o.prefix,
                 "Start of the namespaces' names (default mrc): fabrics with "
                 "different ones live beside each other")
      ->take_last()
      ->type_name("WORD");
  app.footer("docs/fabric_tool.md has examples.");
  add_up_and_down(app, o);
  add_show(app, o);
  add_exec(app, o);
  add_link_and_switch(app, o);
  add_set(app, o);
  add_export(app, o);
  add_wire(app, o);
  parse_command_line(app, argc, argv, [&o] { finish(o); });
  check_prefix(o.prefix);
  return o;
}

}  // namespace mrc::tools
