// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Counters of an engine and of its queue pairs: plain structs. They only grow, but for what
/// QpStats says of the present.
namespace mrc::inline v0_1 {

/// Packets that an engine dropped, by reason.
struct DropStats {
  std::uint64_t bad_icrc = 0;     ///< the iCRC is wrong
  std::uint64_t bad_tag = 0;      ///< lacks the tag of the connection: forged, or of an old one
  std::uint64_t malformed = 0;    ///< lengths, version or opcode do not fit
  std::uint64_t unknown_qp = 0;   ///< no such QPN here
  std::uint64_t foreign = 0;      ///< from another peer than the one expected
  std::uint64_t wrong_state = 0;  ///< QP in RESET, INIT or ERR, or not yet sending
  std::uint64_t stale = 0;        ///< SACK, NACK or ACK for packets that are long done
  std::uint64_t implausible = 0;  ///< acknowledges what was never sent
  std::uint64_t bad_key = 0;  ///< a write that is not permitted, not yet answered (see Responder)
  std::uint64_t refused_hint = 0;      ///< port status that nobody vouches for and can't be true
  std::uint64_t limited = 0;           ///< asked for more answers than are given
  std::uint64_t control_overflow = 0;  ///< answers not sent: the control queue was full
  std::uint64_t bad_qkey = 0;          ///< datagrams with another Q_Key than the queue pair's
  std::uint64_t no_receive = 0;        ///< datagrams that found no posted receive
  std::uint64_t not_receiving = 0;     ///< new data after QueuePair::stop_receiving()
};

/// Counters of an engine.
struct EngineStats {
  std::uint64_t tx_data = 0;         ///< data packets sent for the first time
  std::uint64_t tx_retransmits = 0;  ///< retransmissions
  std::uint64_t tx_parts = 0;        ///< packets that carried a part of a data packet
  /// SACK, NACK, ACK, probes, endpoint packets: the sum of sacks_sent, nacks_sent, acks_sent,
  /// probes_sent, ev_probes_sent, port_updates_sent and endpoint_answers_sent.
  std::uint64_t tx_control = 0;
  std::uint64_t rx_data = 0;                ///< data packets accepted
  std::uint64_t rx_duplicates = 0;          ///< data packets received before
  std::uint64_t rx_parts = 0;               ///< parts of data packets received
  std::uint64_t rx_control = 0;             ///< control packets
  std::uint64_t rx_trimmed = 0;             ///< packets that a switch trimmed
  std::uint64_t rx_ecn = 0;                 ///< data packets marked CE
  std::uint64_t sacks_sent = 0;             ///< SACKs sent, answers to probes among them
  std::uint64_t probe_sacks_sent = 0;       ///< of these, answers to reliability probes
  std::uint64_t sacks_received = 0;         ///< SACKs received
  std::uint64_t nacks_sent = 0;             ///< NACKs sent
  std::uint64_t nacks_received = 0;         ///< NACKs received
  std::uint64_t refused = 0;                ///< of these, for want of room or of a receive there
  std::uint64_t acks_sent = 0;              ///< Transport ACKs and NAKs sent
  std::uint64_t acks_received = 0;          ///< Transport ACKs and NAKs received
  std::uint64_t probes_sent = 0;            ///< reliability probes
  std::uint64_t probe_answers = 0;          ///< answers received to reliability probes
  std::uint64_t ev_probes_sent = 0;         ///< EV probes sent
  std::uint64_t ev_probe_answers = 0;       ///< answers received to EV probes
  std::uint64_t ev_probes_received = 0;     ///< EV probes of peers, answered
  std::uint64_t endpoint_answers_sent = 0;  ///< answers to EV probes and port status updates
  std::uint64_t port_updates_sent = 0;      ///< port status updates
  std::uint64_t port_updates_received = 0;  ///< port status updates of peers
  std::uint64_t inferred_losses = 0;        ///< packets taken for lost (mrc-1.0 §2.9)
  std::uint64_t timeouts = 0;               ///< expiries of retransmission timers
  std::uint64_t qp_errors = 0;              ///< queue pairs that went to ERR
  std::uint64_t pool_exhausted = 0;     ///< sending paused: ExpertConfig::max_outstanding reached
  std::uint64_t tx_datagrams = 0;       ///< datagrams given to a port
  std::uint64_t tx_datagrams_lost = 0;  ///< datagrams not sent: all planes to them are down
  std::uint64_t rx_datagrams = 0;       ///< datagrams received into a posted receive
  DropStats drops;                      ///< packets dropped, by reason
};

/// Counters of a queue pair.
struct QpStats {
  std::uint64_t tx_packets = 0;          ///< data packets sent for the first time
  std::uint64_t tx_bytes = 0;            ///< their payload
  std::uint64_t retransmits = 0;         ///< data packets sent again
  std::uint64_t rx_packets = 0;          ///< data packets accepted
  std::uint64_t rx_bytes = 0;            ///< their payload
  std::uint64_t rx_duplicates = 0;       ///< data packets received before
  std::uint64_t writes_completed = 0;    ///< requests completed by a Transport ACK
  std::uint64_t receives_completed = 0;  ///< receives consumed by writes with immediate and SENDs
  std::uint64_t receiver_not_ready = 0;  ///< packets that found no receive and have to come again
  std::uint64_t inferred_losses = 0;     ///< packets taken for lost (mrc-1.0 §2.9)
  std::uint64_t nacks = 0;               ///< NACKs received
  std::uint64_t trims = 0;               ///< of these, those for trimmed packets
  std::uint64_t refused = 0;             ///< of these, for want of room or of a receive there
  std::uint64_t timeouts = 0;            ///< expiries of the retransmission timer
  std::uint64_t probes = 0;              ///< reliability probes sent
  std::uint64_t acknowledged = 0;        ///< times that the peer acknowledged something new
  std::uint32_t smoothed_rtt_ns = 0;     ///< smoothed round-trip time
  std::uint32_t outstanding = 0;         ///< packets sent and not yet reported
  std::uint64_t cwnd = 0;                ///< window of the destination's congestion context, bytes
  std::int64_t inflight = 0;             ///< bytes in flight of that context
};

}  // namespace mrc::inline v0_1
