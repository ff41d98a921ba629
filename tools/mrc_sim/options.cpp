// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "common/command_line.hpp"

namespace mrc::tools {
namespace {

constexpr const char* kFormat =
    R"(A scenario is a JSON file, in which // and /* */ comments are allowed. Times are texts with a
unit ("500ns", "1.5us", "2ms"), sizes are numbers or texts ("64KiB", "1MB"). What has a default may
be left out.

  title      one line (needed)                      about      text
  seed       default 1
  run        time: the end (needed); warm_up: goodput and completion times count from here
  transport  kind: mrc or roce; queue_pairs per flow, mtu, cc, paths, burst, timeout, dcqcn, ...
  topology   kind: clos, single_switch or dumbbell; planes, hosts, hosts_per_t0, t1s, host_gbps,
             fabric_gbps, host_delay, fabric_delay, forwarding, queue {limit, ecn_min, ecn_max,
             overflow: trim or drop, ...}, pfc {xoff, xon}
  traffic    a list (needed) of {kind, start, queue_pairs, ...}; kind: streams, send_recv,
             permutation, incast, all_reduce, all_to_all or trace; hosts are named: h3
  faults     a list of {at, kind, target, value, for}; kind: down, up, black_hole, heal, loss,
             corruption, slow, kill or flap {until, period, down}; target: h3, h3.p0, p1t0-2,
             p1t1-2, p1t0-2-p1t1-3, h3.p0>p0t0-1, p1, or a list of such names
  random_faults {begin, end, max_faults, ...}       bad_cables {share, loss}
  samples    interval, per_host, queues: names of links, or deepest
  plots      for scripts/plot: a list of {show, title, reference, ...}; show: a series (goodput,
             queue deepest, lost, retransmitted, ...), completion_times, or summary with a metric
             over the variants' x
  sweep      a list of variants {name, set: ["path=value", ...], line, x}, each a run of its own

docs/simulator.md has every field with its default, and says what is modelled.)";

std::string scenario_names() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(scenario_directory(), none))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The file of a scenario that is given by its file or by its name.
std::string expand(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::exists(name, none) || name.find('/') != std::string::npos) return name;
  const std::string known = scenario_directory() + "/" + name;
  for (const std::string& candidate : {known, known + ".json"})
    if (fs::exists(candidate, none)) return candidate;
  throw CLI::ValidationError(fmt::format(
      "run {}: there is no such file, and no such scenario among: {}", name, scenario_names()));
}

void add_run(CLI::App& app, Options& o, std::vector<std::string>& sets) {
  app.add_option("file", o.file, "Scenario, or the name of one that `mrc_sim list` shows")
      ->required()
      ->type_name("FILE");
  app.add_option("--seed", o.seed, "Instead of the scenario's seed")->type_name("N");
  app.add_option("--set", sets,
                 "Another value for a field: topology.planes=4, faults[0].at=2ms; may be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  app.add_option("--threads", o.threads, "Variants of a sweep that run at a time (default 1)")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
  app.add_option("--json", o.json_file, "Write all results as JSON, which scripts/plot draws")
      ->type_name("FILE");
  app.add_option("--csv", o.csv_directory, "Write series and messages as CSV into a directory")
      ->type_name("DIR");
  app.add_flag("--check", o.check, "Only read the scenario and report errors in it");
  app.add_flag("--quiet", o.quiet, "No progress on standard error");
  app.footer(kFormat);
}

void add_soak(CLI::App& app, SoakCommand& o) {
  app.add_option("count", o.count, "Seeds to run")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 48))
      ->capture_default_str();
  app.add_option("--from", o.from, "First seed")->capture_default_str();
  app.add_option("--seed", o.seed, "Run this seed only, twice, and print all about it")
      ->excludes(app.get_option("count"));
  app.add_option("--threads", o.threads, "Threads; 0: one per core")
      ->check(CLI::Range(0u, kMostSoakThreads))
      ->capture_default_str();
}

}  // namespace

std::string scenario_directory() {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  std::vector<fs::path> places{"tools/scenarios",
                               program.parent_path() / "../share/openmrc/scenarios"};
#ifdef MRC_SCENARIO_DIR
  places.emplace_back(MRC_SCENARIO_DIR);
#endif
  for (const fs::path& place : places)
    if (fs::is_directory(place, none)) return place.lexically_normal().string();
  return {};
}

Options parse_options(int argc, char** argv) {
  Options o;
  std::vector<std::string> sets;
  CLI::App app("Runs MRC and baselines on simulated fabrics.", "mrc_sim");
  app.require_subcommand(1);
  app.footer("`mrc_sim run --help` describes the format of scenarios.");
  CLI::App& run = *app.add_subcommand("run", "Run a scenario and report its results");
  CLI::App& soak = *app.add_subcommand("soak", "Run random scenarios and check that MRC is right");
  CLI::App& list = *app.add_subcommand("list", "Show the scenarios that there are");
  add_run(run, o, sets);
  add_soak(soak, o.soak);
  list.add_option("directory", o.directory, "Where to look (default: those of the program)")
      ->type_name("DIR");
  parse_command_line(app, argc, argv, [&] {
    if (run.parsed()) o.file = expand(o.file);
  });
  if (soak.parsed()) o.command = Command::soak;
  if (list.parsed()) o.command = Command::list;
  for (const std::string& text : sets) o.overrides.push_back(Override::parse(text));
  return o;
}

}  // namespace mrc::tools
