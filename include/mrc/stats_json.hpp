// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "mrc/stats.hpp"

/// Statistics as JSON and back: every field under its own name. `nlohmann::json j = stats;` and
/// `j.get<DeviceStats>()` work too. Reading throws nlohmann::json::exception when a field is
/// missing or of another type.
namespace mrc::inline v0_1 {

namespace port {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PortStats, tx_packets, tx_bytes, tx_calls, tx_busy, tx_errors,
                                   rx_packets, rx_bytes, rx_calls, rx_foreign, rx_malformed,
                                   rx_overrun, tx_placed, rx_placed, tx_markers, rx_unsettled,
                                   path_resets, late_writes, peers_refused)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FaultStats, lost, duplicated, reordered, corrupted, marked,
                                   trimmed, delayed, black_holed, link_down, overflow)
}  // namespace port

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DropStats, bad_icrc, bad_tag, malformed, unknown_qp, foreign,
                                   wrong_state, stale, implausible, bad_key, refused_hint, limited,
                                   control_overflow, bad_qkey, no_receive, not_receiving)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EngineStats, tx_data, tx_retransmits, tx_parts, tx_control,
                                   rx_data, rx_duplicates, rx_parts, rx_control, rx_trimmed, rx_ecn,
                                   sacks_sent, sacks_received, nacks_sent, nacks_received,
                                   acks_sent, acks_received, probes_sent, probe_answers,
                                   ev_probes_sent, ev_probe_answers, ev_probes_received,
                                   port_updates_sent, port_updates_received, inferred_losses,
                                   timeouts, qp_errors, pool_exhausted, tx_datagrams,
                                   tx_datagrams_lost, rx_datagrams, drops)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QpStats, tx_packets, tx_bytes, retransmits, rx_packets, rx_bytes,
                                   rx_duplicates, writes_completed, receives_completed,
                                   receiver_not_ready, inferred_losses, nacks, trims, timeouts,
                                   probes, acknowledged, smoothed_rtt_ns, outstanding, cwnd,
                                   inflight)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlaneStats, address, up, enabled, rx_bad_icrc, rx_disabled, port,
                                   faults)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PathReport, ev, plane, port_path, state, active, packets, bytes,
                                   delivered, marks, trims, losses, timeouts, probes_sent,
                                   probes_answered, times_bad)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LaneStats, slot, qps, peers, helper_rounds, engine)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeerReport, addresses, lane, queue_pairs, foreign)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceStats, engine, planes, lanes, qps, cqs, srqs, mrs, pds,
                                   peers, connected, peers_refused, unconnected_probes_answered,
                                   unconnected_probes_refused, resolutions_answered,
                                   resolutions_refused, events_dropped, helper_rounds)

/// Statistics of a device as an object.
[[nodiscard]] inline nlohmann::json to_json(const DeviceStats& stats) {
  return stats;
}
/// Counters of an engine as an object.
[[nodiscard]] inline nlohmann::json to_json(const EngineStats& stats) {
  return stats;
}
/// One plane as an object.
[[nodiscard]] inline nlohmann::json to_json(const PlaneStats& stats) {
  return stats;
}
/// Counters of a queue pair as an object.
[[nodiscard]] inline nlohmann::json to_json(const QpStats& stats) {
  return stats;
}
/// One path as an object.
[[nodiscard]] inline nlohmann::json to_json(const PathReport& report) {
  return report;
}
/// Paths as an array of objects.
[[nodiscard]] inline nlohmann::json to_json(std::span<const PathReport> reports) {
  auto array = nlohmann::json::array();
  for (const auto& report : reports) array.push_back(report);
  return array;
}

}  // namespace mrc::inline v0_1
