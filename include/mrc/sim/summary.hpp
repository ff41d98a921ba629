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
  std::uint64_t count = 0;  ///< number of messages
  Duration min{};           ///< smallest
  Duration p50{};           ///< median
  Duration p90{};           ///< 90th percentile
  Duration p99{};           ///< 99th percentile
  Duration p999{};          ///< 99.9th percentile
  Duration max{};           ///< largest
  Duration mean{};          ///< arithmetic mean

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

/// Result of one traffic pattern.
struct TrafficSummary {
  std::string name;                         ///< as in Traffic
  bool done = false;                        ///< all messages delivered or failed
  Time started{};                           ///< virtual time
  Time finished{};                          ///< time of the last delivery so far
  std::vector<Workload::Failure> failures;  ///< of its flows
  /// Collectives: completed iterations, their mean time, and bandwidths in GB/s (Collective).
  bool collective = false;
  std::uint64_t iterations = 0;    ///< completed
  Duration iteration_time{};       ///< mean
  double algorithm_bandwidth = 0;  ///< GB/s
  double bus_bandwidth = 0;        ///< GB/s
};

/// Goodput of a flow while it had messages in flight, in Gb/s, from warm-up on.
struct FlowSummary {
  FlowId flow{};               ///< the flow
  unsigned from = 0;           ///< host
  unsigned to = 0;             ///< host
  std::uint64_t messages = 0;  ///< delivered
  double goodput = 0;          ///< Gb/s
  std::string failure;         ///< reason; empty if it has not failed
};

/// The results of a run up to the network's current time.
struct Summary {
  Time end{};                           ///< virtual time
  Duration measured{};                  ///< time since warm-up, which goodput refers to
  double goodput = 0;                   ///< total, Gb/s
  std::vector<double> host_goodput;     ///< by receiving host, Gb/s
  double host_min = 0;                  ///< of hosts that received something, Gb/s
  double host_median = 0;               ///< of the same hosts, Gb/s
  double host_max = 0;                  ///< of the same hosts, Gb/s
  double fairness = 1;                  ///< Jain's index of the same hosts' goodput
  TimesSummary times;                   ///< messages posted from warm-up on
  std::uint64_t messages = 0;           ///< posted
  std::uint64_t delivered = 0;          ///< of these
  std::uint64_t delivered_bytes = 0;    ///< payload
  ClusterStats hosts;                   ///< counters of the hosts
  LinkStats links;                      ///< sums over all links; max_queue: the largest
  std::uint64_t unroutable = 0;         ///< dropped by switches for lack of a route
  std::uint64_t events = 0;             ///< see Network
  std::uint64_t digest = 0;             ///< see Network
  std::vector<TrafficSummary> traffic;  ///< by pattern
  std::vector<FlowSummary> flows;       ///< by flow

  /// Packets lost in switches and on links, for any reason.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return links.dropped + links.lost + links.refused + unroutable;
  }
  /// Events per data packet sent, retransmissions included; 0 without packets.
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

/// The results of a run so far. Linear in hosts, links and messages.
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
