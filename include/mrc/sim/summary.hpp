// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mrc/sim/simulation.hpp"
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

/// A flow, and its goodput from warm-up on (MessageLog::goodput()).
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
  Ledger ledger;                        ///< what became of the data packets
  LinkStats links;                      ///< sums over all links; max_queue: the largest
  std::uint64_t unroutable = 0;         ///< dropped by switches for lack of a route
  std::uint64_t events = 0;             ///< see Network
  std::uint64_t digest = 0;             ///< see Network
  std::vector<TrafficSummary> traffic;  ///< by pattern
  std::vector<FlowSummary> flows;       ///< by flow

  /// Data packets that arrived whole and were refused: MRC answers with a NACK, RoCE drops all
  /// behind a gap. Negative if hosts count more than has arrived, which would be a bug.
  [[nodiscard]] std::int64_t refused() const noexcept {
    return static_cast<std::int64_t>(ledger[PacketFate::arrived] - hosts.accepted -
                                     hosts.duplicates);
  }
  /// Data packets that no copy of has been accepted yet: all are under way, or lost.
  [[nodiscard]] std::int64_t missing() const noexcept {
    return static_cast<std::int64_t>(hosts.data_packets - hosts.accepted);
  }
  /// Whether every data packet sent again is explained: what hosts say that they have sent is what
  /// the network has carried, and they received no more than has arrived. Then
  /// retransmitted = lost + refused + under way + duplicates - missing.
  [[nodiscard]] bool accounted() const noexcept {
    return hosts.data_packets + hosts.retransmitted == ledger.sent() && refused() >= 0 &&
           missing() >= 0;
  }
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

/// The results of a run so far. Linear in hosts, links and messages.
[[nodiscard]] Summary summarize(const Simulation& simulation);

}  // namespace mrc::inline v0_1::sim
