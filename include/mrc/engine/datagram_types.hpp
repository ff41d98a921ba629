// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/ip.hpp"

/// Unreliable datagrams, as an application sees them: types that the reliable queue pairs do not
/// have. Names and values follow the verbs API.
namespace mrc::inline v0_1 {

/// Bytes in front of each received datagram, which say where it came from: its IPv6 header, or 20
/// bytes of zeros and its IPv4 header. Completion::byte_len counts them.
inline constexpr std::uint32_t kGrhBytes = wire::kGrhSize;
/// A DatagramRequest::remote_q_key with this bit stands for the sending queue pair's own Q_Key.
inline constexpr std::uint32_t kOwnQKey = 0x8000'0000;

/// Where a datagram goes: a device, and how packets to it are marked. A plain value.
struct AddressHandle {
  wire::IpAddress gid{};  ///< an address of the device; IPv4 mapped (::ffff:a.b.c.d)
  /// DSCP and ECN of the packets. 0: the DSCP of packets that are not to be trimmed. One that MRC
  /// uses for packets that may be trimmed, or were, is replaced by that, too.
  std::uint8_t traffic_class = 0;
  /// For programs that carry it; ports send with a hop limit of their own.
  std::uint8_t hop_limit = 64;
  /// Chooses one of the paths, together with both QPNs: datagrams that agree in all of them take
  /// the same path.
  std::uint32_t flow_label = 0;

  /// Equal in every field.
  friend bool operator==(const AddressHandle&, const AddressHandle&) = default;
};

/// Where an answer to a received datagram goes, by the first kGrhBytes bytes of its memory: back to
/// its source, in the same class. Nothing if they name no sender (Completion::has_grh).
[[nodiscard]] inline std::optional<AddressHandle> answer_to(Bytes grh) noexcept {
  const std::optional<wire::Origin> origin = wire::read_grh(grh);
  if (!origin || origin->source == wire::IpAddress{}) return std::nullopt;
  AddressHandle to;
  to.gid = origin->source;
  to.traffic_class = origin->traffic_class;
  to.flow_label = origin->flow_label;
  return to;
}

/// A work request for the send queue of a datagram queue pair. A plain value; what it points to
/// must live until it is posted.
struct DatagramRequest {
  std::uint64_t wr_id = 0;                   ///< returned in the completion
  std::span<const Sge> sges{};               ///< data to send, at most the queue pair's MTU
  AddressHandle to{};                        ///< the peer's device
  Qpn remote_qpn{};                          ///< its queue pair there
  std::uint32_t remote_q_key = 0;            ///< that one's Q_Key, or with kOwnQKey the own one
  std::optional<std::uint32_t> immediate{};  ///< delivered in the peer's completion
  SendFlags flags{};                         ///< signaled, inline, solicited
};

/// A step of a datagram queue pair to another state. A plain value.
struct DatagramChange {
  /// To go to: RESET to INIT to RTR to RTS; ERR and RESET from any. The present state, from INIT
  /// on, if only the Q_Key is to change.
  QpState state = QpState::init;
  std::optional<std::uint32_t> q_key{};  ///< to INIT, RTR or RTS; 0 after creation and reset
  std::optional<Psn> send_psn{};         ///< to RTS: of the first datagram; default: a random one
};

/// Counters of a datagram queue pair.
struct DatagramStats {
  std::uint64_t tx_packets = 0;  ///< datagrams given to a port
  std::uint64_t tx_bytes = 0;    ///< their payload
  std::uint64_t tx_lost = 0;     ///< not sent: all planes towards them are down
  std::uint64_t completed = 0;   ///< posted ones that are complete, signaled or not; not flushed
  std::uint64_t rx_packets = 0;  ///< datagrams received into a posted receive
  std::uint64_t rx_bytes = 0;    ///< their payload
  std::uint64_t no_receive = 0;  ///< dropped: there was no posted receive
  std::uint64_t bad_qkey = 0;    ///< dropped: they had another Q_Key
};

/// What is known of a datagram queue pair.
struct DatagramInfo {
  QpState state = QpState::reset;           ///< present state
  QpErrorCause cause = QpErrorCause::none;  ///< why it is in ERR
  PdId pd{};                                ///< protection domain
  QpCapacity capacity{};                    ///< sizes of its queues
  std::uint32_t mtu = 0;                    ///< largest payload, bytes
  std::uint32_t q_key = 0;                  ///< that datagrams to it must carry
  Psn send_psn;                             ///< of the first datagram that it sends or has sent
  bool signal_all = false;                  ///< as created
  std::uint32_t sends = 0;                  ///< slots of the send queue that are not free
  std::optional<SrqId> srq{};               ///< its shared receive queue, if it has one
  DatagramStats stats{};                    ///< counters since it was created
};

}  // namespace mrc::inline v0_1
