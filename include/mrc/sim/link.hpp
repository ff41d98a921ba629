// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc/core/time.hpp"
#include "mrc/sim/packet.hpp"

namespace mrc::inline v0_1::sim {

/// Index of a node: host or switch.
enum class NodeId : std::uint32_t {};
[[nodiscard]] constexpr std::uint32_t value(NodeId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

/// What a full queue does to a data packet.
enum class Overflow : std::uint8_t {
  drop,  ///< tail drop
  trim,  ///< keep the headers, in the control class (mrc-1.0 §1.12); only packets that may be
};

/// The queue in front of a link. Sizes in bytes on the wire.
struct QueueSettings {
  std::uint64_t data_limit = 512 * 1024;      ///< of the data class; not with a shared buffer
  std::uint64_t control_limit = 1024 * 1024;  ///< of the control class
  /// ECN ramp on the data class at arrival: never marked below ecn_min, with a probability that
  /// grows to ecn_probability at ecn_max, always above. 0 for ecn_max: no marking.
  std::uint64_t ecn_min = 0, ecn_max = 0;
  double ecn_probability = 1;
  Overflow overflow = Overflow::drop;
  std::uint8_t trimmable_dscp = 4, retransmit_dscp = 8;  ///< classes that may be trimmed
  std::uint8_t trimmed_dscp = 12;                        ///< what a trimmed packet gets
};

/// A cable in one direction.
struct LinkSettings {
  Duration delay{500};  ///< propagation and the forwarding time of the node behind, in ns
  double gbps = 100;
  QueueSettings queue;
};

/// Counters of a link and its queue.
struct LinkStats {
  std::uint64_t packets = 0, bytes = 0;  ///< sent; bytes on the wire
  std::uint64_t marked = 0;              ///< got ECN CE here
  std::uint64_t trimmed = 0;
  std::uint64_t dropped = 0;       ///< queue full
  std::uint64_t lost = 0;          ///< by the loss rate, or in flight when the link went down
  std::uint64_t refused = 0;       ///< arrived while the link was down
  std::uint64_t corrupted = 0;     ///< a bit turned over
  std::uint64_t max_queue = 0;     ///< deepest data queue, bytes
  std::uint64_t pauses = 0;        ///< times that flow control stopped it
  Duration paused{};               ///< for how long in all
  std::uint64_t refused_data = 0;  ///< those of them with payload: no probes, no answers
  Time last_refused{};             ///< when the last of those with payload came
};

/// One direction of a cable with the queue in front of it, and what fault injection did to it.
/// Owned and moved by Network.
struct alignas(64) Link {
  struct Fifo {
    PacketId head = kNoPacket, tail = kNoPacket;
    std::uint64_t bytes = 0;
    [[nodiscard]] bool empty() const noexcept { return head == kNoPacket; }
  };

  // What every packet touches stands in front.
  std::int64_t busy_until = 0;   ///< femtoseconds
  std::int64_t fs_per_byte = 0;  ///< femtoseconds; 10,000 at 800 Gb/s
  Fifo control, data;            ///< waiting
  NodeId from{}, to{};
  std::uint32_t to_port = 0, from_port = 0;  ///< its place among the ports of both nodes
  std::int32_t buffer = -1;                  ///< shared buffer of the switch in front; -1: none
  std::uint32_t epoch = 0;  ///< goes up when the link goes down: what was on it is lost
  bool up = true;
  bool scheduled = false;           ///< a link_free event is posted
  bool paused = false;              ///< flow control holds the data class
  bool pausing = false;             ///< the node behind has asked for that
  double loss = 0, corruption = 0;  ///< probabilities per packet
  LinkSettings settings;
  LinkStats stats;
  std::uint64_t buffered = 0;  ///< bytes in the switch behind that came by this link (PFC)
  Time paused_at{};
  double slow = 1;   ///< the rate is divided by this
  std::string name;  ///< "h3.p0>t0.0.1"

  [[nodiscard]] std::uint64_t queued() const noexcept { return control.bytes + data.bytes; }
};

}  // namespace mrc::inline v0_1::sim
