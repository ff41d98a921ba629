// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc/core/types.hpp"
#include "mrc/sim/packet.hpp"

namespace mrc::inline v0_1::sim {

/// Index of a node: host or switch.
enum class NodeId : std::uint32_t {};
/// The index itself.
[[nodiscard]] constexpr std::uint32_t value(NodeId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

/// Treatment of a data packet that arrives at a full queue.
enum class Overflow : std::uint8_t {
  drop,  ///< tail drop
  trim,  ///< trim to headers, then control class (mrc-1.0 §1.12); only packets of trimmable classes
};

/// The queue of a link. Sizes in bytes on the wire.
struct QueueSettings {
  std::uint64_t data_limit = 512 * 1024;      ///< of the data class; unused with a shared buffer
  std::uint64_t control_limit = 1024 * 1024;  ///< of the control class
  /// ECN marking of the data class at arrival, by queue length in bytes: never below ecn_min, with
  /// a probability rising to ecn_probability at ecn_max, always above. ecn_max 0: no marking.
  std::uint64_t ecn_min = 0;
  std::uint64_t ecn_max = 0;           ///< see ecn_min
  double ecn_probability = 1;          ///< at ecn_max
  Overflow overflow = Overflow::drop;  ///< treatment at a full data queue
  std::uint8_t trimmable_dscp = 4;     ///< class that may be trimmed
  std::uint8_t retransmit_dscp = 8;    ///< retransmissions, which may be trimmed
  std::uint8_t trimmed_dscp = 12;      ///< DSCP of a trimmed packet
};

/// One direction of a cable.
struct LinkSettings {
  Duration delay{500};  ///< propagation and the forwarding time of the receiving node, in ns
  double gbps = 100;    ///< rate in Gb/s
  QueueSettings queue;  ///< its queue
};

/// Counters of a link and its queue.
struct LinkStats {
  std::uint64_t packets = 0;       ///< sent
  std::uint64_t bytes = 0;         ///< sent, on the wire
  std::uint64_t marked = 0;        ///< ECN CE set here
  std::uint64_t trimmed = 0;       ///< trimmed here
  std::uint64_t dropped = 0;       ///< queue full
  std::uint64_t lost = 0;          ///< by the loss rate, or as the link went down
  std::uint64_t refused = 0;       ///< arrived while the link was down
  std::uint64_t corrupted = 0;     ///< had a bit flipped
  std::uint64_t max_queue = 0;     ///< largest data queue, bytes
  std::uint64_t pauses = 0;        ///< number of pauses by flow control
  Duration paused{};               ///< total pause time
  std::uint64_t refused_data = 0;  ///< refused packets with payload (neither probes nor responses)
  Time last_refused{};             ///< arrival of the last refused packet with payload
};

/// One direction of a cable with its queue and its fault injection state. Owned and moved by
/// Network.
struct alignas(64) Link {
  /// A linked list of packets.
  struct Fifo {
    PacketId head = kNoPacket;  ///< first packet
    PacketId tail = kNoPacket;  ///< last packet
    std::uint64_t bytes = 0;    ///< on the wire
    /// Whether there are no packets.
    [[nodiscard]] bool empty() const noexcept { return head == kNoPacket; }
  };

  // Fields used for every packet come first.
  std::int64_t busy_until = 0;   ///< femtoseconds
  std::int64_t fs_per_byte = 0;  ///< femtoseconds; 10,000 at 800 Gb/s
  Fifo control;                  ///< queue of the control class
  Fifo data;                     ///< queue of the data class
  NodeId from{};                 ///< sending node
  NodeId to{};                   ///< receiving node
  std::uint32_t to_port = 0;     ///< index among the ports of the receiving node
  std::uint32_t from_port = 0;   ///< index among the ports of the sending node
  std::int32_t buffer = -1;      ///< shared buffer of the sending switch; -1: none
  std::uint32_t epoch =
      0;           ///< incremented when the link goes down: packets of older epochs are lost
  bool up = true;  ///< carries packets
  bool scheduled = false;      ///< a link_free event is posted
  bool paused = false;         ///< flow control stops the data class
  bool pausing = false;        ///< the receiving node has requested the pause
  double loss = 0;             ///< probability per packet
  double corruption = 0;       ///< probability per packet
  LinkSettings settings;       ///< as created
  LinkStats stats;             ///< counters
  std::uint64_t buffered = 0;  ///< bytes in the receiving switch that arrived by this link (PFC)
  Time paused_at{};            ///< start of the current pause
  double slow = 1;             ///< divisor of the rate
  std::string name;            ///< "h3.p0>p0t0-1"

  /// Bytes in both queues.
  [[nodiscard]] std::uint64_t queued() const noexcept { return control.bytes + data.bytes; }
};

}  // namespace mrc::inline v0_1::sim
