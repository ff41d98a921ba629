// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Counters of an engine and of its queue pairs: plain structs, only ever growing.
namespace mrc::inline v0_1 {

/// Packets that an engine dropped, by reason. Nothing else happens for them.
struct DropStats {
  std::uint64_t malformed = 0;         ///< lengths, version or opcode do not fit
  std::uint64_t unknown_qp = 0;        ///< no such QPN here
  std::uint64_t foreign = 0;           ///< the sender is not the queue pair's peer
  std::uint64_t wrong_state = 0;       ///< QP in RESET or INIT, or not yet sending
  std::uint64_t stale = 0;             ///< SACK, NACK or ACK for packets that are long done
  std::uint64_t implausible = 0;       ///< acknowledges what was never sent
  std::uint64_t control_overflow = 0;  ///< answers not sent: the control queue was full
};

/// Counters of an engine.
struct EngineStats {
  std::uint64_t tx_data = 0, tx_retransmits = 0, tx_control = 0;
  std::uint64_t rx_data = 0, rx_duplicates = 0, rx_control = 0, rx_trimmed = 0, rx_ecn = 0;
  std::uint64_t sacks_sent = 0, sacks_received = 0;
  std::uint64_t nacks_sent = 0, nacks_received = 0;
  std::uint64_t acks_sent = 0, acks_received = 0;
  std::uint64_t probes_sent = 0, probe_answers = 0;        ///< reliability probes
  std::uint64_t ev_probes_sent = 0, ev_probe_answers = 0;  ///< EV probes
  std::uint64_t ev_probes_received = 0;                    ///< of peers, and answered
  std::uint64_t port_updates_sent = 0, port_updates_received = 0;
  std::uint64_t inferred_losses = 0, timeouts = 0, qp_errors = 0;
  std::uint64_t pool_exhausted = 0;  ///< sending paused: Config::max_outstanding reached
  DropStats drops;
};

/// Counters of a queue pair.
struct QpStats {
  std::uint64_t tx_packets = 0, tx_bytes = 0;  ///< first transmissions; payload bytes
  std::uint64_t retransmits = 0;
  std::uint64_t rx_packets = 0, rx_bytes = 0;  ///< accepted; payload bytes
  std::uint64_t rx_duplicates = 0;
  std::uint64_t writes_completed = 0;
  std::uint64_t receives_completed = 0;
  std::uint64_t inferred_losses = 0, nacks = 0, trims = 0, timeouts = 0, probes = 0;
  std::uint32_t smoothed_rtt_ns = 0;
  std::uint32_t outstanding = 0;  ///< packets sent and not yet reported
  std::uint64_t cwnd = 0;         ///< of the destination's congestion context, bytes
  std::int64_t inflight = 0;      ///< the same
};

}  // namespace mrc::inline v0_1
