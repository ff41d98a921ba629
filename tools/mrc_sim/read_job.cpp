// SPDX-License-Identifier: Apache-2.0
// The outermost fields of a scenario file, and its variants.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "mrc_sim/job.hpp"
#include "mrc_sim/metrics.hpp"

namespace mrc::tools {
namespace {

using namespace std::chrono_literals;

/// A network without traffic, to look up names used by a scenario.
class Names {
 public:
  explicit Names(const sim::FabricSettings& settings) : network_(1) {
    for (unsigned h = 0; h < settings.hosts; ++h) nodes_.push_back(network_.add_node(node_));
    fabric_.emplace(network_, settings, nodes_, 1);
  }
  [[nodiscard]] const sim::Fabric& fabric() const { return *fabric_; }

 private:
  struct Nothing : sim::Node {
    void on_packet(sim::LinkId, sim::PacketId) override {}
  };
  Nothing node_;
  sim::Network network_;
  std::vector<sim::NodeId> nodes_;
  std::optional<sim::Fabric> fabric_;
};

void read_run(const json_file::Object& run, sim::Scenario& s) {
  s.end = Time{run.duration("time", 1ns, kLongest)};
  s.warm_up = Time{run.duration("warm_up", 0ns, kLongest, 0ns)};
  if (s.warm_up >= s.end) run.fail("warm_up", "is not before the end of the run");
}

void read_samples(const json_file::Object& samples, sim::Scenario& s) {
  sim::RecorderSettings r;
  const Duration usual = std::max<Duration>(1us, s.end.time_since_epoch() / 200);
  r.interval = samples.duration("interval", 10ns, kLongest, usual);
  r.per_host = samples.boolean("per_host", false);
  r.queues = samples.texts("queues", r.queues);
  r.max_samples = samples.integer<std::size_t>("max", 2, 1'000'000, r.max_samples);
  s.samples = r;
}

/// What would happen after the end of the run does not happen.
void check_times(const json_file::Object& root, const sim::Scenario& s) {
  const Duration end = s.end.time_since_epoch();
  const auto check = [&](const json_file::Object& o, const char* field, Duration latest) {
    if (o.has(field) && o.duration(field, 0ns, kLongest) > latest)
      o.fail(field,
             latest == end ? "is after the end of the run" : "is not before the end of the run");
  };
  for (const json_file::Object& fault : root.array("faults")) check(fault, "at", end - 1ns);
  if (root.has("random_faults")) check(root.object("random_faults"), "end", end);
  for (const json_file::Object& pattern : root.array("traffic")) {
    check(pattern, "start", end - 1ns);
    const Duration start = pattern.duration("start", 0ns, kLongest, 0ns);
    if (pattern.text("kind") != "streams") continue;
    for (const json_file::Object& pair : pattern.array("pairs"))
      check(pair, "delay", end - start - 1ns);
  }
}

/// Validates names of the fabric's parts; errors name their position in the file.
void check_names(const json_file::Object& root, const sim::Scenario& s) {
  if (s.faults.empty() && s.samples->queues == std::vector<std::string>{"deepest"}) return;
  const Names names(s.fabric);
  const auto faults = root.array("faults");
  for (const json_file::Object& fault : faults)
    for (const std::string& target : fault.texts("target")) {
      try {
        (void)names.fabric().find(target);
      } catch (const Error& error) {
        fault.fail("target", reason(error));
      }
    }
  for (const std::string& queue : s.samples->queues) {
    try {
      if (queue != "deepest") (void)names.fabric().find(queue);
    } catch (const Error& error) {
      root.object("samples").fail("queues", reason(error));
    }
  }
}

sim::Scenario read_scenario(const json_file::Object& root, std::optional<std::uint64_t> seed) {
  sim::Scenario s;
  const auto own = root.integer<std::uint64_t>("seed", 0, UINT64_MAX, 1);
  s.seed = seed.value_or(own);
  const json_file::Object transport = root.object("transport");
  const TransportFacts facts = read_transport_facts(transport);
  s.fabric = read_topology(root.object("topology"), facts);
  read_transport(transport, s);
  read_run(root.object("run"), s);
  read_samples(root.object("samples"), s);
  read_faults(root, s);
  read_traffic(root, facts.queue_pairs, s);
  check_times(root, s);
  check_names(root, s);
  return s;
}

/// Whether the recorder of `s` will have this series.
bool is_series(const std::string& name, const sim::Scenario& s) {
  for (const char* known : {"goodput", "goodput per host", "dropped", "lost", "trimmed", "marked",
                            "retransmitted", "timeouts"})
    if (name == known) return true;
  if (s.samples->per_host && name.starts_with("goodput h")) {
    unsigned host = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, failed] = std::from_chars(name.data() + 9, end, host);
    return failed == std::errc{} && stop == end && host < s.fabric.hosts;
  }
  return std::any_of(
      s.samples->queues.begin(), s.samples->queues.end(),
      [&](const std::string& queue) { return name == "queue " + sim::canonical_name(queue); });
}

/// The fields of a variant in the file's sweep.
struct SweepEntry {
  Variant variant;
  std::vector<Override> set;
};

/// The variants that a plot has, all of them by default.
std::vector<std::string> read_plot_variants(const json_file::Object& o,
                                            const std::vector<SweepEntry>& sweep) {
  std::vector<std::string> names = o.texts("variants");
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::none_of(sweep.begin(), sweep.end(),
                     [&](const SweepEntry& e) { return e.variant.name == names[i]; }))
      o.fail("variants", i, "is no variant of the sweep");
  return names;
}

PlotRequest read_plot(const json_file::Object& o, const sim::Scenario& s,
                      const std::vector<SweepEntry>& sweep) {
  PlotRequest p;
  p.show = o.text("show");
  constexpr std::string_view kQueue = "queue ";
  if (p.show.starts_with(kQueue))
    p.show = std::string(kQueue) + sim::canonical_name(p.show.substr(kQueue.size()));
  p.title = o.text("title", "");
  p.x_label = o.text("x_label", "");
  if (o.has("reference")) p.reference = o.number("reference", -1e12, 1e12);
  p.reference_label = o.text("reference_label", "");
  p.log_x = o.boolean("log_x", false);
  p.height = o.number("height", 60, 2000, p.height);
  p.variants = read_plot_variants(o, sweep);
  if (p.show == "summary") {
    p.metric = o.text("metric");
    if (!is_metric(p.metric))
      o.fail("metric", fmt::format("is unknown; there are {}", fmt::join(metric_names(), ", ")));
  } else if (p.show != "completion_times" && !is_series(p.show, s)) {
    o.fail("show",
           "is no series of this run: goodput, goodput per host, dropped, lost, trimmed, marked, "
           "retransmitted, timeouts, \"queue NAME\" with a name of samples.queues, \"goodput hN\" "
           "with "
           "samples.per_host, or completion_times, or summary");
  }
  return p;
}

std::vector<PlotRequest> read_plots(const json_file::Object& root, const sim::Scenario& s,
                                    const std::vector<SweepEntry>& sweep) {
  std::vector<PlotRequest> plots;
  for (const json_file::Object& o : root.array("plots", 0, 50))
    plots.push_back(read_plot(o, s, sweep));
  if (!plots.empty()) return plots;
  for (const char* usual : {"goodput", "completion_times"}) {
    plots.emplace_back();
    plots.back().show = usual;
  }
  return plots;
}

std::vector<SweepEntry> read_sweep(const json_file::Object& root) {
  std::vector<SweepEntry> sweep;
  for (const json_file::Object& o : root.array("sweep", 0, 1000)) {
    SweepEntry entry;
    entry.variant.name = o.text("name");
    entry.variant.line = o.text("line", "");
    if (o.has("x")) entry.variant.x = o.number("x", -1e12, 1e12);
    for (const std::string& text : o.texts("set")) {
      try {
        entry.set.push_back(Override::parse(text));
      } catch (const json_file::FileError& error) {
        o.fail("set", error.what());
      }
    }
    for (const SweepEntry& other : sweep)
      if (other.variant.name == entry.variant.name) o.fail("name", "is taken by another variant");
    sweep.push_back(std::move(entry));
  }
  return sweep;
}

}  // namespace

Override Override::parse(const std::string& text) {
  const auto at = text.find('=');
  if (at == std::string::npos || at == 0)
    throw json_file::FileError(fmt::format(
        "--set: '{}' must be PATH=VALUE, such as topology.planes=4", json_file::printable(text)));
  return {text.substr(0, at), text.substr(at + 1)};
}

std::string title_of(const std::string& file) {
  return json_file::File::read(file, "scenario").root().text("title");
}

namespace {

/// Reads the file again, with these fields set.
Variant read_variant(const std::string& file, const SweepEntry* entry,
                     const std::vector<Override>& overrides, std::optional<std::uint64_t> seed,
                     Job& job) {
  json_file::File scenario = json_file::File::read(file, "scenario");
  if (entry != nullptr)
    for (const Override& o : entry->set) scenario.override(o.path, o.value);
  for (const Override& o : overrides) scenario.override(o.path, o.value);
  const json_file::Object root = scenario.root();
  Variant v = entry != nullptr ? entry->variant : Variant{};
  (void)root.text("$schema", "");  // for editors
  job.title = root.text("title");
  job.about = root.text("about", "");
  v.scenario = read_scenario(root, seed);
  job.seed = v.scenario.seed;
  job.plots = read_plots(root, v.scenario, read_sweep(root));
  root.finish();
  return v;
}

}  // namespace

Job read_job(const std::string& file, const std::vector<Override>& overrides,
             std::optional<std::uint64_t> seed) {
  Job job;
  job.file = file;
  json_file::File scenario = json_file::File::read(file, "scenario");
  for (const Override& o : overrides) scenario.override(o.path, o.value);
  const std::vector<SweepEntry> sweep = read_sweep(scenario.root());
  if (sweep.empty()) {
    job.variants.push_back(read_variant(file, nullptr, overrides, seed, job));
    return job;
  }
  for (const SweepEntry& entry : sweep) {
    try {
      job.variants.push_back(read_variant(file, &entry, overrides, seed, job));
    } catch (const json_file::FileError& error) {
      throw json_file::FileError(
          fmt::format("{} (in variant \"{}\")", error.what(), entry.variant.name));
    }
  }
  return job;
}

}  // namespace mrc::tools
