// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "mrc/stats.hpp"

namespace mrc::inline v0_1 {

/// Statistics as JSON and back: every field under its own name.

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
                                   sacks_sent, probe_sacks_sent, sacks_received, nacks_sent,
                                   nacks_received, refused, acks_sent, acks_received, probes_sent,
                                   probe_answers, ev_probes_sent, ev_probe_answers,
                                   ev_probes_received, endpoint_answers_sent, port_updates_sent,
                                   port_updates_received, inferred_losses, timeouts, qp_errors,
                                   pool_exhausted, tx_datagrams, tx_datagrams_lost, rx_datagrams,
                                   drops)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QpStats, tx_packets, tx_bytes, retransmits, rx_packets, rx_bytes,
                                   rx_duplicates, writes_completed, receives_completed,
                                   receiver_not_ready, inferred_losses, nacks, trims, refused,
                                   timeouts, probes, acknowledged, smoothed_rtt_ns, outstanding,
                                   cwnd, inflight)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlaneStats, address, up, enabled, times_down, rx_bad_icrc,
                                   rx_disabled, port, faults)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PathReport, ev, plane, port_path, state, active, packets, bytes,
                                   delivered, marks, trims, losses, timeouts, probes_sent,
                                   probes_answered, times_bad, rtt_ns)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LaneStats, slot, qps, peers, helper_rounds, engine)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeerReport, addresses, lane, number, queue_pairs, paths,
                                   paths_up, backups, foreign, head_check)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceStats, engine, planes, lanes, qps, cqs, srqs, mrs, pds,
                                   peers, connected, peers_refused, unconnected_probes_answered,
                                   unconnected_probes_refused, resolutions_answered,
                                   resolutions_refused, events_dropped, helper_rounds)

/// As JSON; for nlohmann/json, which calls it.
inline void to_json(nlohmann::json& json, const QpReport& report) {
  json = {{"lane", report.lane},
          {"qpn", value(report.qpn)},
          {"state", report.state},
          {"error", report.error},
          {"rc", report.rc},
          {"peer", nullptr},
          {"remote_qpn", value(report.remote_qpn)},
          {"waits_for", report.waits_for},
          {"silent_ns", report.silent_ns},
          {"unfinished", report.unfinished},
          {"stats", report.stats}};
  if (report.peer) json["peer"] = *report.peer;
}
/// From JSON; for nlohmann/json, which calls it. Throws nlohmann::json::exception.
inline void from_json(const nlohmann::json& json, QpReport& report) {
  json.at("lane").get_to(report.lane);
  report.qpn = Qpn{json.at("qpn").get<std::uint32_t>()};
  json.at("state").get_to(report.state);
  json.at("error").get_to(report.error);
  json.at("rc").get_to(report.rc);
  report.peer.reset();
  if (const auto& peer = json.at("peer"); !peer.is_null()) report.peer = peer.get<std::uint32_t>();
  report.remote_qpn = Qpn{json.at("remote_qpn").get<std::uint32_t>()};
  json.at("waits_for").get_to(report.waits_for);
  json.at("silent_ns").get_to(report.silent_ns);
  json.at("unfinished").get_to(report.unfinished);
  json.at("stats").get_to(report.stats);
}

/// Statistics as JSON and back: every field under its own name. `nlohmann::json j = stats;` and
/// `j.get<DeviceStats>()` work too. Reading throws nlohmann::json::exception when a field is
/// missing or of another type.

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
/// What is known of a queue pair as an object.
[[nodiscard]] inline nlohmann::json to_json(const QpReport& report) {
  return report;
}
/// Paths as an array of objects.
[[nodiscard]] inline nlohmann::json to_json(std::span<const PathReport> reports) {
  auto array = nlohmann::json::array();
  for (const auto& report : reports) array.push_back(report);
  return array;
}

}  // namespace mrc::inline v0_1
