// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "mrc/sim/summary.hpp"
#include "mrc/sim/traffic/collective.hpp"

namespace mrc::inline v0_1::sim {
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
