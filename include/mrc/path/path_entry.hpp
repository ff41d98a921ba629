// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/path/health.hpp"

namespace mrc::inline v0_1::path {

/// Index of a path in its PathSet; stable for the set's lifetime.
using PathIndex = std::uint16_t;
/// "No path".
inline constexpr PathIndex kNoPath = 0xFFFF;
/// Largest number of paths in a PathSet: a slot of the spraying order fits 16 bits.
inline constexpr std::size_t kMaxPaths = 32'768;

/// One path to a destination: the EV that identifies it, the plane (NIC port) that it starts at,
/// and its index among that port's own paths (for instance which bound socket).
struct PathSpec {
  Ev ev{};                      ///< entropy value
  Plane plane = 0;              ///< NIC port
  std::uint16_t port_path = 0;  ///< index among the port's own paths

  /// Equal in all fields.
  friend bool operator==(const PathSpec&, const PathSpec&) = default;
};

/// Counters of one path since the set was created or the entry was replaced.
struct PathStats {
  std::uint64_t sent_packets = 0;     ///< data packets, retransmissions included
  std::uint64_t sent_bytes = 0;       ///< of these, as IPv6 packets (UDP length + 40)
  std::uint64_t delivered = 0;        ///< packets reported received
  std::uint32_t marks = 0;            ///< SACKs with m = 01 or 10
  std::uint32_t trims = 0;            ///< NACK TRIMMED
  std::uint32_t losses = 0;           ///< inferred losses
  std::uint32_t timeouts = 0;         ///< packets timed out, up to 65,535
  std::uint32_t probes_sent = 0;      ///< revive probes
  std::uint32_t probes_answered = 0;  ///< answered probes of any use that prove that data passes
  std::uint32_t times_bad = 0;        ///< changes to ASSUMED_BAD, up to 65,535
  std::uint32_t rtt_ns = 0;           ///< smoothed round-trip time; 0: not measured
};

namespace detail {

/// A path as stored in PathSet: one cache line, the fields used per packet first.
struct alignas(64) Entry {
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t delivered = 0;
  Time newest_delivered = Time::min();  ///< when the packet was sent, of those delivered the newest
  Ev ev{};
  std::uint16_t port_path = 0;
  Plane plane = 0;
  Health health = Health::good;
  std::uint8_t strikes = 0;  ///< consecutive inferred losses without a delivery
  bool active : 1 = false;   ///< holds a place in the active set
  bool waits : 1 = false;    ///< SKIP, and the walk has passed over it: becomes GOOD in its turn
  bool queued : 1 = false;   ///< stands in the queue of those that wait
  std::uint16_t slot =
      0;  ///< index in the spraying order's plane lists; valid while the path is in the order
  std::uint32_t marks = 0;
  std::uint32_t trims = 0;
  std::uint32_t losses = 0;
  std::uint32_t probes_sent = 0;
  std::uint16_t timeouts = 0;  ///< this and times_bad saturate
  std::uint16_t times_bad = 0;
};
static_assert(sizeof(Entry) == 64, "one cache line per path");

/// Counters of a path that its entry has no room for.
struct Figures {
  std::uint32_t probes_answered = 0;
  std::uint32_t rtt_ns = 0;
};

[[nodiscard]] inline PathStats stats_of(const Entry& e, const Figures& f) noexcept {
  return {e.sent_packets, e.sent_bytes,  e.delivered,       e.marks,     e.trims, e.losses,
          e.timeouts,     e.probes_sent, f.probes_answered, e.times_bad, f.rtt_ns};
}

}  // namespace detail
}  // namespace mrc::inline v0_1::path
