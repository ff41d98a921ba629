// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mrc/sim/simulation.hpp"
#include "mrc/sim/traffic/collective.hpp"
#include "mrc/sim/traffic/measures.hpp"

namespace mrc::inline v0_1::sim {

/// Completion times of delivered messages.
struct TimesSummary {
  std::uint64_t count = 0;
  Duration min{}, p50{}, p90{}, p99{}, p999{}, max{}, mean{};

  /// `sorted` in ascending order.
  [[nodiscard]] static TimesSummary of(std::span<const Duration> sorted) {
    TimesSummary s;
    if (sorted.empty()) return s;
    s.count = sorted.size();
    s.min = sorted.front();
    s.p50 = percentile(sorted, 50);
    s.p90 = percentile(sorted, 90);
    s.p99 = percentile(sorted, 99);
    s.p999 = percentile(sorted, 99.9);
    s.max = sorted.back();
    s.mean = sim::mean(sorted);
    return s;
  }
};

/// What became of one pattern of the traffic.
struct TrafficSummary {
  std::string name;
  bool done = false;
  Time started{}, finished{};  ///< finished: the last delivery so far
  std::vector<Workload::Failure> failures;
  /// Collectives: iterations that completed, their mean time, and bandwidths in GB/s (Collective).
  bool collective = false;
  std::uint64_t iterations = 0;
  Duration iteration_time{};
  double algorithm_bandwidth = 0, bus_bandwidth = 0;
};

/// Goodput of a flow while its messages arrived, in Gb/s, from warm-up on.
struct FlowSummary {
  FlowId flow{};
  unsigned from = 0, to = 0;
  std::uint64_t messages = 0;  ///< delivered
  double goodput = 0;
  std::string failure;
};

/// A run in numbers, up to the network's present time.
struct Summary {
  Time end{};                                          ///< virtual
  Duration measured{};                                 ///< goodput is of the time since warm-up
  double goodput = 0;                                  ///< of all hosts, Gb/s
  std::vector<double> host_goodput;                    ///< by receiving host, Gb/s
  double host_min = 0, host_median = 0, host_max = 0;  ///< of hosts that received something
  double fairness = 1;                                 ///< Jain's index of the same hosts
  TimesSummary times;                                  ///< of messages posted from warm-up on
  std::uint64_t messages = 0, delivered = 0;           ///< posted, delivered
  std::uint64_t delivered_bytes = 0;
  ClusterStats hosts;
  LinkStats links;  ///< of all links together; max_queue: the deepest
  std::uint64_t unroutable = 0;
  std::uint64_t events = 0, digest = 0;
  std::vector<TrafficSummary> traffic;
  std::vector<FlowSummary> flows;

  /// Packets that switches and links threw away, for whatever reason.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return links.dropped + links.lost + links.refused + unroutable;
  }
  /// Per data packet that was sent, again or for the first time; 0 if there was none.
  [[nodiscard]] double events_per_packet() const noexcept {
    const auto packets = static_cast<double>(hosts.data_packets + hosts.retransmitted);
    return packets > 0 ? static_cast<double>(events) / packets : 0;
  }
};

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

/// The numbers of a run so far. Linear in hosts, links and messages.
[[nodiscard]] inline Summary summarize(const Simulation& simulation) {
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
  for (const Link& link : network.links()) detail::add_link(s.links, link.stats);
  s.unroutable = simulation.fabric().unroutable();
  s.events = network.events();
  s.digest = network.digest();
  detail::summarize_traffic(simulation, s);
  detail::summarize_flows(simulation, s);
  return s;
}

}  // namespace mrc::inline v0_1::sim
