// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "common/command_line.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc_ctl/events.hpp"
#include "mrc_ctl/serve/host_port.hpp"

namespace mrc::ctl_tool {
namespace {

using namespace std::chrono_literals;

constexpr const char* kFooter =
    R"(Devices are found by their control sockets, in /run/openmrc and in the user's own
folder; root sees those of all users. Where several devices are open, reading
commands show all of them, and those that change something want --pid, --name,
--device or --all. drain, deny, allow, and plane with --all hold for all devices
of the host, those that open later included, unless devices are named.

Exit status: 0 done, 1 a device refused or did not answer, a probe was lost, a link is slow (paths
--for), or hosts do not fit; 2 bad options, 3 there is no such device, or a host that is to be
checked does not answer, 130 interrupted.
docs/control.md explains what is shown, and has the protocol.)";

void add_duration(CLI::App& app, const std::string& name, const std::string& help, Duration& to,
                  Duration most = 1h) {
  app.add_option_function<std::string>(
         name,
         [name, &to, most](const std::string& text) {
           const auto value = parse_duration(text);
           if (!value || *value < 50ms || *value > most)
             throw CLI::ValidationError(
                 fmt::format("{} {}: must be a time such as 500ms, 50ms to {}", name, text,
                             format_duration(most)));
           to = *value;
         },
         help)
      ->type_name("TIME");
}

/// What paths, events and probe show of peers and planes.
void add_plane(CLI::App& app, Options& o, const char* help) {
  app.add_option("--plane", o.in_plane, help)->check(CLI::Range(0u, 31u))->type_name("N");
}
void add_peer(CLI::App& app, Options& o) {
  app.add_option("--peer", o.peer, "Only that peer: its number, or one of its addresses")
      ->type_name("PEER");
}

/// As for others, or in minutes, hours or days.
std::optional<Duration> parse_age(const std::string& text) {
  const auto in = [&](const char* unit, Duration of_unit) -> std::optional<Duration> {
    if (!text.ends_with(unit)) return std::nullopt;
    const auto number =
        parse_integer<std::uint16_t>(std::string_view(text).substr(0, text.size() - 1));
    return number ? std::optional(*number * of_unit) : std::nullopt;
  };
  if (const auto age = in("m", 1min)) return age;
  if (const auto age = in("h", 1h)) return age;
  if (const auto age = in("d", 24h)) return age;
  const auto age = parse_duration(text);
  return age && *age >= Duration(0) ? age : std::nullopt;
}

void add_events(CLI::App& events, Options& o) {
  events.add_flag("--follow", o.follow, "And further ones as they come, until Ctrl-C");
  events.add_option("--kind", o.kinds, "Only those: " + event_kinds_text())
      ->delimiter(',')
      ->check([](const std::string& kind) {
        return is_event_kind(kind) ? std::string()
                                   : fmt::format("{}: there is {}", kind, event_kinds_text());
      })
      ->type_name("KIND");
  events
      .add_option_function<std::string>(
          "--since",
          [&o](const std::string& text) {
            o.since = parse_age(text);
            if (!o.since)
              throw CLI::ValidationError(
                  fmt::format("--since {}: must be a time such as 90s, 10m or 2h", text));
          },
          "Only those of that time until now: 90s, 10m, 2h")
      ->type_name("TIME");
  add_plane(events, o, "Only those of that plane, and of its paths");
}

CLI::App& add(CLI::App& app, Options& o, const char* name, const char* help, Command command) {
  CLI::App& added = *app.add_subcommand(name, help);
  added.callback([&o, command] { o.command = command; });
  return added;
}

void add_reading(CLI::App& app, Options& o) {
  add(app, o, "list", "The open devices, a line each", Command::list);
  add(app, o, "show", "Process, planes, peers and counters of devices", Command::show);
  add(app, o, "planes", "Planes: state, packets, bytes, faults", Command::planes);
  add(app, o, "qps", "Queue pairs: state, counters, what each waits for", Command::queue_pairs);
  add(app, o, "peers", "Peers, with their queue pairs and paths", Command::peers);
  CLI::App& paths =
      add(app, o, "paths", "Paths to each peer: state, packets, losses, marks", Command::paths);
  paths.add_flag("--idle", o.idle, "Also paths that have carried nothing and are good");
  paths.add_flag("--bad", o.bad, "Only paths that are bad or denied");
  add_peer(paths, o);
  add_plane(paths, o, "Only paths of that plane");
  add_duration(paths, "--for",
               "What they carry in that time, and which links are slow (8s is enough)",
               o.watch_for);
  paths
      .add_option("--fabric", o.fabric,
                  "Description of the fabric (default: MRC_FABRIC, or what the device has read)")
      ->type_name("FILE");
  add_events(add(app, o, "events", "The newest events of devices", Command::events), o);
  CLI::App& probe =
      add(app, o, "probe", "Send a probe on each path to each peer, and time it", Command::probe);
  add_peer(probe, o);
  add_plane(probe, o, "Only paths of that plane");
  add_duration(probe, "--time", "How long answers may take, up to 1s (default 500ms)", o.probe_time,
               1s);
  add(app, o, "denied", "What is denied, and how many paths that takes", Command::denied);
  add(app, o, "config", "Options in force", Command::config);
  add(app, o, "dump", "Everything, as JSON", Command::dump);
  CLI::App& top = add(app, o, "top", "Throughput of processes and planes, live", Command::top);
  add_duration(top, "--interval", "Time from one picture to the next (default 1s)", o.interval);
  top.add_option("--rounds", o.rounds, "End after so many pictures")
      ->check(CLI::Range(1u, 1'000'000u))
      ->type_name("N");
}

/// What deny and allow name.
void add_paths(CLI::App& app, Options& o) {
  app.add_option("part", o.parts,
                 "A switch (p0t1-2), or the two ends of a link (p0t0-1 p0t1-2, or h3 p0t0-1)")
      ->expected(0, 2)
      ->type_name("PART");
  app.add_option("--plane", o.in_plane, "The plane of --ev, or of a host's port")
      ->check(CLI::Range(0u, 31u))
      ->type_name("N");
  app.add_option("--ev", o.ev, "Paths of that EV, as `mrc_ctl paths` lists them")->type_name("EV");
}

/// An option of the library, as programs take it.
std::string check_assignment(const std::string& text) {
  return text.find('=') != text.npos ? std::string() : fmt::format("{}: must be NAME=VALUE", text);
}

std::string check_place(const std::string& text) {
  return parse_host_port(text, kServePort)
             ? std::string()
             : fmt::format("{}: must be like 127.0.0.1:9794, [::1]:9794 or node7", text);
}

void add_serve(CLI::App& app, Options& o) {
  CLI::App& serve =
      add(app, o, "serve", "A page for browsers, and metrics for Prometheus", Command::serve);
  ServeOptions& s = o.serve;
  const auto check = CLI::Validator(check_place, "");
  serve.add_option("--listen", s.listen, "Where to listen (default 127.0.0.1:9794)")
      ->check(check)
      ->type_name("ADDRESS:PORT");
  serve.add_option("--peers", s.peers, "Other hosts that serve, shown beside this one")
      ->delimiter(',')
      ->check(check)
      ->type_name("HOST:PORT");
  serve.add_option("--fabric", s.fabric, "Description of the fabric: shows routes of paths")
      ->type_name("FILE");
  serve.add_flag("--paths", s.paths, "Metrics of each path, too");
  serve.add_option("--allow-host", s.hosts, "A further name that browsers may call this host by")
      ->type_name("NAME");
  auto* steer = serve.add_flag("--steer", s.steer, "Who has the token may take planes out of use");
  serve
      .add_option("--token-file", s.token_file,
                  "Has the token in its first line (else one is made)")
      ->needs(steer)
      ->type_name("FILE");
}

void add_profiles(CLI::App& app, Options& o) {
  CLI::App& profiles =
      add(app, o, "profiles", "The profiles that all devices of the host have", Command::profiles);
  profiles.require_subcommand(1);
  profiles.add_flag("--dry-run", o.dry_run,
                    "put only says what would change, and whether devices agree");
  const auto part = [&](const char* name, const char* help, ProfilesCommand command) {
    CLI::App& added = *profiles.add_subcommand(name, help);
    added.callback([&o, command] { o.profiles = command; });
    if (command == ProfilesCommand::put || command == ProfilesCommand::diff)
      added.add_option("file", o.value, "The profiles, as `get` prints them; -: standard input")
          ->required()
          ->type_name("FILE");
  };
  part("list", "Those of devices, the programs' own included, and how many queue pairs use them",
       ProfilesCommand::list);
  part("get", "Prints them, as a file for put", ProfilesCommand::get);
  part("put", "Puts those of a file in their place, in all devices or in none",
       ProfilesCommand::put);
  part("diff", "As put --dry-run", ProfilesCommand::diff);
}

void add_check(CLI::App& app, Options& o) {
  CLI::App& check =
      add(app, o, "check", "Before a job: does everything between hosts fit?", Command::check);
  CheckOptions& c = o.check;
  const auto place = CLI::Validator(check_place, "");
  auto* hosts = check.add_option("host", c.hosts, "A host where `mrc_ctl check --listen` runs")
                    ->check(place)
                    ->type_name("HOST[:PORT]");
  auto* listen =
      check.add_flag("--listen", c.listen, "Answer others that check this host, until Ctrl-C")
          ->excludes(hosts);
  check.add_option("--at", c.at, "Where (default: TCP port 9795 of all addresses)")
      ->check(place)
      ->needs(listen)
      ->type_name("ADDRESS[:PORT]");
  check
      .add_option("--option", c.options,
                  "An option that the job's devices will have, as MRC_NAME=VALUE sets it; may be "
                  "repeated")
      ->check(CLI::Validator(check_assignment, ""))
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  check
      .add_option("--udp-port", c.udp_port,
                  "Where probes arrive here (default: option udp_port; another one if that is in "
                  "use)")
      ->check(CLI::Range(1u, 65'535u))
      ->type_name("PORT");
  check.add_option("--paths", c.paths, "Source ports that are tried per plane, most (default 16)")
      ->check(CLI::Range(1u, 64u))
      ->type_name("N");
  add_duration(check, "--wait",
               "How long a host has for each answer, and probes a third of that (default 5s)",
               c.patience);
}

/// "1", "plane 1": a plane; else what deny and allow take.
void take_drained(Options& o) {
  std::vector<std::string> words = o.parts;
  if (words.size() == 2 && words[0] == "plane") words.erase(words.begin());
  const bool allows = o.command == Command::allow;
  const auto number = words.size() == 1 ? parse_integer<unsigned>(words[0]) : std::nullopt;
  if (!number) return;
  if (*number > 31) throw CLI::ValidationError(fmt::format("plane {}: must be 0 to 31", *number));
  o.command = Command::plane;
  o.plane = *number;
  o.up = allows;
  o.all = o.all || (!o.pid && o.name.empty() && o.device.empty());  // for the host, as deny
}

void add_drain(CLI::App& app, Options& o, const char* name, const char* help, Command command) {
  CLI::App& drain = add(app, o, name, help, command);
  drain
      .add_option("part", o.parts,
                  "A plane (1), a switch (p0t1-2), or the two ends of a link (p0t0-1 p0t1-2)")
      ->required()
      ->expected(1, 2)
      ->type_name("PART");
  drain.parse_complete_callback([&o] { o.drains = true; });
}

void add_changing(CLI::App& app, Options& o) {
  add_drain(app, o, "drain",
            "Send nothing in a plane, or over a switch or a link: plane N down, deny",
            Command::deny);
  add_drain(app, o, "undrain", "Use it again: plane N up, allow", Command::allow);
  CLI::App& deny =
      add(app, o, "deny", "Send nothing over a switch, a link or an EV, whatever its health",
          Command::deny);
  add_paths(deny, o);
  CLI::App& allow = add(app, o, "allow", "Use denied paths again", Command::allow);
  add_paths(allow, o);
  allow.add_flag("--everything", o.everything, "All that is denied");
  CLI::App& plane =
      add(app, o, "plane", "Take a plane out of use, or use it again", Command::plane);
  plane.add_option("number", o.plane, "The plane, from 0 on")
      ->required()
      ->check(CLI::Range(0u, 31u))
      ->type_name("N");
  plane
      .add_option_function<std::string>(
          "state",
          [&o](const std::string& text) {
            if (text != "up" && text != "down")
              throw CLI::ValidationError(fmt::format("state {}: must be up or down", text));
            o.up = text == "up";
          },
          "up or down")
      ->required()
      ->type_name("up|down");
  add_profiles(app, o);
  add(app, o, "log", "Which messages a device writes", Command::log)
      .add_option("level", o.value, "off, warn or info")
      ->required()
      ->type_name("LEVEL");
  add(app, o, "faults", "Replace the injected faults of devices opened with option faults",
      Command::faults)
      .add_option("schedule", o.value, "Such as loss=0.01; empty: none")
      ->required()
      ->type_name("FAULTS");
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options o;
  CLI::App app("Shows and steers the OpenMRC devices of this host's processes.", "mrc_ctl");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();  // options may come behind the command
  app.add_option("--pid", o.pid, "Devices of that process")->type_name("PID");
  app.add_option("--name", o.name, "Devices of programs with that name")->type_name("NAME");
  app.add_option("--device", o.device, "The device whose id begins so")->type_name("ID");
  app.add_option("--folder", o.folder, "Look there for control sockets (option control)")
      ->type_name("FOLDER");
  add_duration(app, "--patience",
               "How long a process has to say who it is; one that is stopped delays the others so "
               "long (default 1s)",
               o.patience);
  app.add_flag("--all", o.all, "All devices, with commands that change something");
  app.add_flag("--json", o.json, "JSON instead of tables");
  add_reading(app, o);
  add_serve(app, o);
  add_check(app, o);
  add_changing(app, o);
  tools::parse_command_line(app, argc, argv, [&o] {
    if (o.drains) take_drained(o);
    if (!o.fabric.empty() && o.watch_for == Duration(0))
      throw CLI::ValidationError("--fabric: only with --for, which names the links that are slow");
    if (o.command == Command::check && !o.check.listen && o.check.hosts.empty())
      throw CLI::ValidationError("check: name a host to check, or give --listen");
  });
  return o;
}

}  // namespace mrc::ctl_tool
