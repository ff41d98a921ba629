// SPDX-License-Identifier: Apache-2.0
// Machine-readable results: JSON and CSV.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "common/files.hpp"
#include "mrc_sim/distribution.hpp"
#include "mrc_sim/metrics.hpp"
#include "mrc_sim/report.hpp"

namespace mrc::tools {
namespace {

using Json = nlohmann::ordered_json;
using sim::Summary;

double us(Time t) {
  return microseconds(t.time_since_epoch());
}

Json times_json(const sim::TimesSummary& t) {
  return {{"count", t.count},           {"min", microseconds(t.min)},
          {"p50", microseconds(t.p50)}, {"p90", microseconds(t.p90)},
          {"p99", microseconds(t.p99)}, {"p99_9", microseconds(t.p999)},
          {"max", microseconds(t.max)}, {"mean", microseconds(t.mean)}};
}

/// Of the messages that `times_json` summarizes. Two lists of equal length.
Json distribution_json(const sim::Simulation& simulation) {
  Json values = Json::array(), percent = Json::array();
  const auto times = simulation.messages().completion_times(simulation.measured_from());
  for (const DistributionPoint& p : distribution(times)) {
    values.push_back(microseconds(p.value));
    percent.push_back(p.percent);
  }
  return {{"us", std::move(values)}, {"percent", std::move(percent)}};
}

/// Each number by the name that tables and plots have for it; null where the run has no such thing.
Json metrics_json(const Summary& s) {
  Json j = Json::object();
  for (const std::string& name : metric_names())
    if (is_metric(name)) j[name] = metric(s, name);  // not patterns: see "flows"
  return j;
}

Json faults_json(const sim::FaultSchedule& schedule) {
  Json all = Json::array();
  for (const sim::Fault& f : schedule.faults())
    all.push_back({{"at_us", us(f.at)},
                   {"kind", to_string(f.kind)},
                   {"target", f.target},
                   {"value", has_value(f.kind) ? Json(f.value) : Json(nullptr)}});
  return all;
}

Json traffic_json(const Summary& s) {
  Json all = Json::array();
  for (const auto& t : s.traffic) {
    Json j{{"name", t.name},
           {"done", t.done},
           {"started_us", us(t.started)},
           {"finished_us", us(t.finished)}};
    if (t.collective) {
      j["iterations"] = t.iterations;
      j["iteration_us"] = microseconds(t.iteration_time);
      j["algorithm_bandwidth_GBps"] = t.algorithm_bandwidth;
      j["bus_bandwidth_GBps"] = t.bus_bandwidth;
    }
    j["failures"] = Json::array();
    for (const auto& f : t.failures)
      j["failures"].push_back({{"flow", value(f.flow)},
                               {"from", f.hosts.from},
                               {"to", f.hosts.to},
                               {"at_us", us(f.when)},
                               {"reason", f.reason}});
    all.push_back(std::move(j));
  }
  return all;
}

Json flows_json(const Summary& s) {
  Json all = Json::array();
  for (const auto& f : s.flows)
    all.push_back({{"from", f.from},
                   {"to", f.to},
                   {"messages", f.messages},
                   {"gbps", f.goodput},
                   {"failure", f.failure.empty() ? Json(nullptr) : Json(f.failure)}});
  return all;
}

Json series_json(const sim::Recorder* recorder) {
  if (recorder == nullptr) return nullptr;
  Json values = Json::array();
  for (const sim::Series& s : recorder->series())
    values.push_back({{"name", s.name}, {"unit", s.unit}, {"values", s.values}});
  return {{"start_us", us(recorder->started())},
          {"width_us", microseconds(recorder->width())},
          {"series", std::move(values)}};
}

/// What became of each data packet that was sent.
Json account_json(const Summary& s) {
  Json lost = Json::object();
  for (std::size_t i = 0; i < sim::kFates; ++i) {
    const auto fate = static_cast<sim::PacketFate>(i);
    if (fate == sim::PacketFate::arrived) continue;
    std::string name = to_string(fate);
    std::replace(name.begin(), name.end(), ' ', '_');
    lost[name] = s.ledger[fate];
  }
  return {{"sent", s.ledger.sent()},           {"accepted", s.hosts.accepted},
          {"duplicates", s.hosts.duplicates},  {"refused", s.refused()},
          {"lost", s.ledger.lost()},           {"lost_by", std::move(lost)},
          {"under_way", s.ledger.under_way()}, {"missing", s.missing()},
          {"adds_up", s.accounted()}};
}

/// Control packets by kind; all 0 for RoCE, which does not count them apart.
Json control_json(const sim::ControlStats& c) {
  return {{"sacks", c.sacks},
          {"probe_sacks", c.probe_sacks},
          {"nacks", c.nacks},
          {"acks", c.acks},
          {"probes", c.probes},
          {"ev_probes", c.ev_probes},
          {"port_updates", c.port_updates},
          {"endpoint_answers", c.endpoint_answers}};
}

Json counters_json(const Summary& s) {
  return {{"data_packets", s.hosts.data_packets},
          {"retransmitted", s.hosts.retransmitted},
          {"duplicates", s.hosts.duplicates},
          {"control_packets", s.hosts.control_packets},
          {"control", control_json(s.hosts.control)},
          {"timeouts", s.hosts.timeouts},
          {"failed_flows", s.hosts.failed_flows},
          {"trimmed", s.links.trimmed},
          {"marked", s.links.marked},
          {"dropped", s.links.dropped},
          {"lost", s.links.lost},
          {"onto_dead_links", s.links.refused},
          {"data_onto_dead_links", s.links.refused_data},
          {"last_data_onto_dead_link_us",
           s.links.refused_data > 0 ? Json(us(s.links.last_refused)) : Json(nullptr)},
          {"corrupted", s.links.corrupted},
          {"unroutable", s.unroutable},
          {"max_queue_bytes", s.links.max_queue},
          {"pauses", s.links.pauses},
          {"paused_us", microseconds(s.links.paused)}};
}

/// Links with drops, trims, marks, losses or pauses.
Json links_json(const sim::Network& network) {
  Json all = Json::array();
  for (const sim::Link& link : network.links()) {
    const sim::LinkStats& l = link.stats;
    if (l.marked + l.trimmed + l.dropped + l.lost + l.refused + l.corrupted + l.pauses == 0)
      continue;
    all.push_back({{"name", link.name},
                   {"packets", l.packets},
                   {"bytes", l.bytes},
                   {"marked", l.marked},
                   {"trimmed", l.trimmed},
                   {"dropped", l.dropped},
                   {"lost", l.lost},
                   {"onto_dead", l.refused},
                   {"corrupted", l.corrupted},
                   {"max_queue_bytes", l.max_queue},
                   {"pauses", l.pauses},
                   {"paused_us", microseconds(l.paused)}});
  }
  return all;
}

/// Paths from senders to receivers with their feedback counters; those of the first flows, since a
/// large run has millions, and all that were called bad.
Json paths_json(const sim::Simulation& simulation, const Summary& s) {
  constexpr std::size_t kMost = 16 * 1024;
  Json all = Json::array();
  if (simulation.mrc() == nullptr) return all;
  std::set<std::pair<unsigned, unsigned>> seen;
  for (const auto& flow : s.flows) {
    if (!seen.emplace(flow.from, flow.to).second) continue;
    sim::MrcHost& host = simulation.mrc()->host(flow.from);
    const path::PathSet& paths = host.engine().find_peer(host.peer(flow.to))->paths;
    for (path::PathIndex i = 0; i < paths.size(); ++i) {
      const path::PathStats p = paths.stats(i);
      if (all.size() >= kMost && p.times_bad == 0) continue;
      all.push_back({{"from", flow.from},
                     {"to", flow.to},
                     {"plane", paths[i].plane},
                     {"path", paths[i].port_path},
                     {"ev", value(paths[i].ev)},
                     {"health", path::to_string(paths.health(i))},
                     {"packets", p.sent_packets},
                     {"bytes", p.sent_bytes},
                     {"arrived", p.delivered},
                     {"marks", p.marks},
                     {"trims", p.trims},
                     {"losses", p.losses},
                     {"probes", p.probes_sent},
                     {"times_bad", p.times_bad}});
    }
  }
  return all;
}

/// The plots that the scenario asks for; `unit` is that of `metric`.
Json plots_json(const Job& job) {
  Json all = Json::array();
  for (const PlotRequest& p : job.plots) {
    Json j{{"show", p.show}, {"title", p.title}, {"height", p.height}, {"log_x", p.log_x}};
    j["x_label"] = p.x_label;
    if (!p.metric.empty()) {
      j["metric"] = p.metric;
      j["unit"] = metric_unit(p.metric);
    }
    if (p.reference) {
      j["reference"] = *p.reference;
      j["reference_label"] = p.reference_label;
    }
    if (!p.variants.empty()) j["variants"] = p.variants;
    all.push_back(std::move(j));
  }
  return all;
}

std::string dumped(const Json& j) {
  return j.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json measured_json(const Variant& v, const Outcome& o, const sim::Simulation* simulation) {
  Json j{{"name", v.name},
         {"line", v.line},
         {"x", v.x ? Json(*v.x) : Json(nullptr)},
         {"complete", o.complete}};
  if (simulation == nullptr) return j;
  const Summary& s = o.summary;
  j["end_us"] = us(s.end);
  j["measured_us"] = microseconds(s.measured);
  j["gbps"] = s.goodput;
  j["host_gbps"] = {{"min", s.host_min},
                    {"median", s.host_median},
                    {"max", s.host_max},
                    {"fairness", s.fairness},
                    {"all", s.host_goodput}};
  j["messages"] = {
      {"posted", s.messages}, {"delivered", s.delivered}, {"delivered_bytes", s.delivered_bytes}};
  j["completion_us"] = times_json(s.times);
  j["completion_us"]["distribution"] = distribution_json(*simulation);
  j["counters"] = counters_json(s);
  j["account"] = account_json(s);
  j["metrics"] = metrics_json(s);
  j["traffic"] = traffic_json(s);
  j["flows"] = flows_json(s);
  j["links"] = links_json(simulation->network());
  j["paths"] = paths_json(*simulation, s);
  j["faults"] = faults_json(simulation->faults());
  j["events"] = s.events;
  j["events_per_packet"] = s.events_per_packet();
  j["digest"] = fmt::format("{:016x}", s.digest);
  j["run_seconds"] = o.run_seconds;
  j["build_seconds"] = o.build_seconds;
  j["samples"] = series_json(simulation->recorder());
  return j;
}

/// A valid file name.
std::string file_name(const std::string& variant) {
  std::string name;
  for (const char c : variant) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-';
    name += plain ? c : '_';
  }
  return name.empty() ? "run" : name;
}

}  // namespace

std::string run_json(const Variant& variant, const Outcome& outcome,
                     const sim::Simulation* simulation) {
  std::string text;
  for (const char c : dumped(measured_json(variant, outcome, simulation))) {
    text += c;
    if (c == '\n') text += "    ";  // json_report() puts it into a list
  }
  return text;
}

std::string json_report(const Job& job, std::vector<Outcome> outcomes, bool interrupted) {
  std::string text = dumped({{"version", 2},
                             {"title", job.title},
                             {"file", job.file},
                             {"seed", job.seed},
                             {"interrupted", interrupted},
                             {"plots", plots_json(job)}});
  text.resize(text.rfind('\n'));  // the runs are texts already, and follow before the last brace
  std::size_t size = text.size() + 64;
  for (const Outcome& o : outcomes) size += o.json.size() + 16;
  text.reserve(size);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    text += i == 0 ? ",\n  \"runs\": [\n    " : ",\n    ";
    const std::string run = std::exchange(outcomes[i].json, {});  // released when it is copied
    text += outcomes[i].started ? run : run_json(job.variants[i], outcomes[i], nullptr);
  }
  text += "\n  ]\n}\n";
  return text;
}

void make_csv_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error(error, fmt::format("can't make directory '{}'", directory));
}

void write_csv(const Variant& variant, const sim::Simulation& simulation,
               const std::string& directory) {
  const std::string base = directory + "/" + file_name(variant.name);
  std::ostringstream messages;
  simulation.messages().write_csv(messages);
  write_file(base + "-messages.csv", messages.str());
  if (const sim::Recorder* recorder = simulation.recorder()) {
    std::ostringstream series;
    recorder->write_csv(series);
    write_file(base + "-series.csv", series.str());
  }
}

}  // namespace mrc::tools
