// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/metrics.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace mrc::tools {
namespace {

using sim::Summary;

struct Metric {
  const char* name;
  const char* unit;
  double (*value)(const Summary&);
};

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double count(std::uint64_t n) {
  return static_cast<double>(n);
}

/// Of the first collective.
double bus_bandwidth(const Summary& s) {
  for (const auto& t : s.traffic)
    if (t.collective && t.iterations > 0) return t.bus_bandwidth;
  return kNone;
}
double iteration_time(const Summary& s) {
  for (const auto& t : s.traffic)
    if (t.collective && t.iterations > 0) return microseconds(t.iteration_time);
  return kNone;
}

constexpr std::array kMetrics{
    Metric{"goodput", "Gb/s", [](const Summary& s) { return s.goodput; }},
    Metric{"host_min", "Gb/s", [](const Summary& s) { return s.host_min; }},
    Metric{"host_median", "Gb/s", [](const Summary& s) { return s.host_median; }},
    Metric{"host_max", "Gb/s", [](const Summary& s) { return s.host_max; }},
    Metric{"fairness", "", [](const Summary& s) { return s.fairness; }},
    Metric{"bus_bandwidth", "GB/s", bus_bandwidth},
    Metric{"iteration_time", "us", iteration_time},
    Metric{"p50", "us", [](const Summary& s) { return microseconds(s.times.p50); }},
    Metric{"p99", "us", [](const Summary& s) { return microseconds(s.times.p99); }},
    Metric{"max", "us", [](const Summary& s) { return microseconds(s.times.max); }},
    Metric{"retransmitted", "packets",
           [](const Summary& s) { return count(s.hosts.retransmitted); }},
    Metric{"duplicates", "packets", [](const Summary& s) { return count(s.hosts.duplicates); }},
    Metric{"trimmed", "packets", [](const Summary& s) { return count(s.links.trimmed); }},
    Metric{"marked", "packets", [](const Summary& s) { return count(s.links.marked); }},
    Metric{"dropped", "packets", [](const Summary& s) { return count(s.links.dropped); }},
    Metric{"lost", "packets",
           [](const Summary& s) { return count(s.links.lost + s.links.refused); }},
    Metric{"control", "packets", [](const Summary& s) { return count(s.hosts.control_packets); }},
    Metric{"timeouts", "", [](const Summary& s) { return count(s.hosts.timeouts); }},
    Metric{"failed_flows", "", [](const Summary& s) { return count(s.hosts.failed_flows); }},
};

const Metric* find(std::string_view name) {
  for (const Metric& m : kMetrics)
    if (name == m.name) return &m;
  return nullptr;
}

/// N of a name that is `pattern` and N.
std::optional<std::uint32_t> number_of(std::string_view name, std::string_view pattern) {
  std::uint32_t number = 0;
  if (!name.starts_with(pattern)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [stop, failed] = std::from_chars(name.data() + pattern.size(), end, number);
  if (failed != std::errc{} || stop != end) return std::nullopt;
  return number;
}
std::optional<std::uint32_t> flow_of(std::string_view name) {
  return number_of(name, "flow ");
}
std::optional<std::uint32_t> host_of(std::string_view name) {
  return number_of(name, "goodput h");
}

}  // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Metric& m : kMetrics) names.emplace_back(m.name);
  names.emplace_back("\"flow N\"");
  names.emplace_back("\"goodput hN\"");
  return names;
}

bool is_metric(std::string_view name) {
  return find(name) != nullptr || flow_of(name) || host_of(name);
}

double metric(const Summary& summary, std::string_view name) {
  if (const Metric* m = find(name)) return m->value(summary);
  if (const auto host = host_of(name))
    return *host < summary.host_goodput.size() ? summary.host_goodput[*host] : kNone;
  const auto flow = flow_of(name);
  return flow && *flow < summary.flows.size() ? summary.flows[*flow].goodput : kNone;
}

std::vector<std::pair<const char*, std::uint64_t>> control_kinds(const sim::ControlStats& c) {
  return {{"SACKs", c.sacks},
          {"Transport ACKs", c.acks},
          {"NACKs", c.nacks},
          {"reliability probes", c.probes},
          {"answers to them", c.probe_sacks},
          {"EV probes", c.ev_probes},
          {"port updates", c.port_updates},
          {"endpoint answers", c.endpoint_answers}};
}

std::string metric_unit(std::string_view name) {
  const Metric* m = find(name);
  return m != nullptr ? m->unit : "Gb/s";
}

}  // namespace mrc::tools
