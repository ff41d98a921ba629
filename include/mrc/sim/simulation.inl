// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/simulation.hpp"

#include "mrc/sim/traffic/collective.hpp"

namespace mrc::inline v0_1::sim {

namespace detail {

[[nodiscard]] inline std::array<std::uint64_t, 5> derived_seeds(std::uint64_t seed) {
  Random random(seed);
  std::array<std::uint64_t, 5> seeds;
  for (std::uint64_t& s : seeds) s = random.next();
  return seeds;
}

}  // namespace detail

Simulation::Simulation(Scenario scenario)
    : scenario_(std::move(scenario)),
      seeds_(detail::derived_seeds(scenario_.seed)),
      network_(seeds_[0]) {
  scenario_.fabric.check();
  if (const auto* mrc = std::get_if<MrcCluster::Settings>(&scenario_.transport))
    mrc_ = make_cluster<MrcCluster>(*mrc);
  else
    roce_ = make_cluster<baseline::RoceCluster>(std::get<Scenario::Roce>(scenario_.transport));
  plan_faults();
  if (scenario_.samples) {
    recorder_ = std::make_unique<Recorder>(network_, *fabric_, *cluster_, *scenario_.samples);
    recorder_->start();
  }
  if (scenario_.warm_up > Time{})
    network_.call_at(scenario_.warm_up, [this] {
      for (unsigned h = 0; h < cluster_->hosts(); ++h)
        before_.push_back(cluster_->received_bytes(h));
      measured_from_ = network_.now();
    });
  plan_traffic();
}

// --- faults
// ---------------------------------------------------------------------------------------

void Simulation::plan_faults() {
  faults_ = scenario_.faults;
  if (scenario_.random_faults)
    faults_.add(sim::random_faults(*fabric_, *scenario_.random_faults, seeds_[3]));
  faults_.add(draw_bad_cables());
  faults_.apply(network_, *fabric_, [this](unsigned host) {
    if (mrc_ != nullptr)
      mrc_->host(host).kill();
    else
      roce_->host(host).kill();
  });
}

/// Draws cables between switches, as many as the scenario's fraction of all of them.
FaultSchedule Simulation::draw_bad_cables() const {
  FaultSchedule schedule;
  const BadCables& bad = scenario_.bad_cables;
  if (bad.share <= 0) return schedule;
  const FabricSettings& f = scenario_.fabric;
  const std::string join = bad.both_ways ? "-" : ">";
  std::vector<std::string> cables;
  for (unsigned p = 0; p < f.planes; ++p)
    for (unsigned j = 0; j < f.t0s(); ++j)
      for (unsigned u = 0; u < f.t1_count(); ++u)
        cables.push_back(switch_name(0, p, j) + join + switch_name(1, p, u));
  Random random(seeds_[4]);
  random.shuffle(std::span<std::string>(cables));
  const auto count = static_cast<std::size_t>(bad.share * static_cast<double>(cables.size()) + 0.5);
  for (std::size_t i = 0; i < std::min(count, cables.size()); ++i)
    schedule.add({Time{}, FaultKind::loss, cables[i], bad.loss});
  return schedule;
}

// --- traffic
// --------------------------------------------------------------------------------------

void Simulation::plan_traffic() {
  if (scenario_.traffic.empty()) throw Error(Errc::invalid_argument, "scenario: no traffic");
  shared_ = std::make_unique<SharedCluster>(*cluster_);
  open_ = scenario_.traffic.size();
  for (std::size_t i = 0; i < scenario_.traffic.size(); ++i) {
    traffic_.push_back(scenario_.traffic[i].make(*fabric_));
    views_.push_back(&shared_->add_view());
    traffic_.back()->when_done([this] {
      if (--open_ == 0) network_.stop();
    });
    if (scenario_.traffic[i].start <= Time{})
      start(i);
    else
      network_.call_at(scenario_.traffic[i].start, [this, i] { start(i); });
  }
}

void Simulation::start(std::size_t pattern) {
  traffic_[pattern]->start(network_, *views_[pattern], log_);
}

namespace detail {

inline void add_link(LinkStats& sum, const LinkStats& link) noexcept {
  sum.packets += link.packets;
  sum.bytes += link.bytes;
  sum.marked += link.marked;
  sum.trimmed += link.trimmed;
  sum.dropped += link.dropped;
  sum.lost += link.lost;
  sum.refused += link.refused;
  sum.refused_data += link.refused_data;
  sum.corrupted += link.corrupted;
  sum.max_queue = std::max(sum.max_queue, link.max_queue);
  sum.pauses += link.pauses;
  sum.paused += link.paused;
  sum.last_refused = std::max(sum.last_refused, link.last_refused);
}

inline void summarize_hosts(const Simulation& simulation, Summary& s) {
  std::vector<double> active;
  for (unsigned h = 0; h < simulation.cluster().hosts(); ++h) {
    const std::uint64_t all = simulation.cluster().received_bytes(h);
    const std::uint64_t bytes = all - std::min(all, simulation.received_before(h));
    s.host_goodput.push_back(gbps(static_cast<double>(bytes), s.measured));
    s.goodput += s.host_goodput.back();
    if (all > 0) active.push_back(s.host_goodput.back());
  }
  if (active.empty()) return;
  s.fairness = jain_index(active);
  std::sort(active.begin(), active.end());
  s.host_min = active.front();
  s.host_median = active[(active.size() - 1) / 2];
  s.host_max = active.back();
}

inline void summarize_traffic(const Simulation& simulation, Summary& s) {
  for (std::size_t i = 0; i < simulation.traffic().size(); ++i) {
    const Workload& w = *simulation.traffic()[i];
    TrafficSummary t;
    t.name = simulation.scenario().traffic[i].name;
    t.done = w.done();
    t.started = w.started();
    t.finished = w.finished();
    t.failures = w.failures();
    if (const auto* c = dynamic_cast<const Collective*>(&w)) {
      t.collective = true;
      t.iterations = c->times().size();
      t.iteration_time = mean(std::span<const Duration>(c->times()));
      t.algorithm_bandwidth = c->algorithm_bandwidth();
      t.bus_bandwidth = c->bus_bandwidth();
    }
    s.traffic.push_back(std::move(t));
  }
}

inline void summarize_flows(const Simulation& simulation, Summary& s) {
  const MessageLog& log = simulation.messages();
  for (std::uint32_t f = 0; f < log.flows().size(); ++f) {
    const FlowRecord& record = log.flows()[f];
    FlowSummary flow{FlowId{f}, record.from, record.to, 0, 0, record.failure};
    for (const std::uint32_t m : record.messages)
      flow.messages += log.messages()[m].delivered != kNever;
    flow.goodput = log.goodput(FlowId{f}, simulation.measured_from(), s.end);
    s.flows.push_back(std::move(flow));
  }
}

}  // namespace detail

Summary summarize(const Simulation& simulation) {
  Summary s;
  const Network& network = simulation.network();
  s.end = network.now();
  s.measured = s.end - std::min(s.end, simulation.measured_from());
  if (simulation.scenario().warm_up > s.end) s.measured = Duration{};
  detail::summarize_hosts(simulation, s);
  const MessageLog& log = simulation.messages();
  s.times = TimesSummary::of(log.completion_times(simulation.measured_from()));
  s.messages = log.messages().size();
  s.delivered = log.delivered();
  s.delivered_bytes = log.delivered_bytes();
  s.hosts = simulation.cluster().stats();
  s.ledger = network.ledger();
  for (const Link& link : network.links()) detail::add_link(s.links, link.stats);
  s.unroutable = simulation.fabric().unroutable();
  s.events = network.events();
  s.digest = network.digest();
  detail::summarize_traffic(simulation, s);
  detail::summarize_flows(simulation, s);
  return s;
}

}  // namespace mrc::inline v0_1::sim
