// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mrc::ctl_tool {

/// A counter of a device's reports, and the metric that shows it. The table of docs/serve.md is
/// compared with these by a test.
struct CounterField {
  const char* field;   ///< of the report (mrc/stats.hpp)
  const char* metric;  ///< without the prefix
  const char* help;
};

/// Of a device: EngineStats.
inline constexpr CounterField kEngineFields[] = {
    {"tx_data", "data_packets_sent_total", "Data packets sent for the first time."},
    {"tx_retransmits", "data_packets_retransmitted_total", "Data packets sent again."},
    {"rx_data", "data_packets_received_total", "Data packets accepted."},
    {"rx_duplicates", "duplicate_packets_received_total", "Data packets that had come before."},
    {"rx_trimmed", "trimmed_packets_received_total", "Packets that a switch trimmed."},
    {"rx_ecn", "ecn_marked_packets_received_total", "Data packets with a congestion mark."},
    {"inferred_losses", "lost_packets_total", "Packets taken for lost, and sent again."},
    {"timeouts", "retransmission_timeouts_total", "Retransmission timers that expired."},
    {"qp_errors", "queue_pair_errors_total", "Queue pairs that went to ERR."},
};

/// Of a plane: PlaneStats and its PortStats.
inline constexpr CounterField kPlaneFields[] = {
    {"tx_bytes", "plane_sent_bytes_total", "Bytes sent, from transport header to iCRC."},
    {"rx_bytes", "plane_received_bytes_total", "Bytes received, from transport header to iCRC."},
    {"tx_packets", "plane_sent_packets_total", "Packets sent."},
    {"rx_packets", "plane_received_packets_total", "Packets received."},
    {"tx_busy", "plane_send_busy_packets_total", "Packets that found a full socket, sent later."},
    {"tx_errors", "plane_send_failed_packets_total", "Packets that the kernel refused."},
    {"rx_bad_icrc", "plane_bad_icrc_packets_total", "Packets received with a wrong iCRC."},
    {"rx_overrun", "plane_receive_overrun_packets_total", "Packets that found a full buffer."},
};

/// Of a path: PathReport. Those of a peer are sums over its paths in a plane.
inline constexpr CounterField kPathFields[] = {
    {"packets", "sent_packets_total", "Data packets sent, those sent again included."},
    {"bytes", "sent_bytes_total", "Bytes of these packets, as IPv6."},
    {"delivered", "delivered_packets_total", "Packets reported received."},
    {"marks", "congestion_marks_total", "Acknowledgements that asked to skip the path once."},
    {"trims", "trimmed_packets_total", "Packets that a switch trimmed."},
    {"losses", "lost_packets_total", "Packets taken for lost."},
    {"timeouts", "timeouts_total", "Retransmission timers that expired."},
    {"probes_sent", "probes_sent_total", "Probes sent to find out whether it is good again."},
    {"probes_answered", "probes_answered_total", "Answered probes."},
    {"times_bad", "failures_total", "Times that a path was taken out of use as bad."},
};

/// Values of such counters, in the order of their table.
template <std::size_t N>
using Values = std::array<std::uint64_t, N>;

}  // namespace mrc::ctl_tool
