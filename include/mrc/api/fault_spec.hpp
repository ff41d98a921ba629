// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::port {

/// What goes wrong on a port or on one path. Rates are probabilities per packet, 0 .. 1. Where
/// several apply, the order is: down or black_hole, loss, trimming, corruption, ECN, duplication,
/// then holding back (reorder, delay).
struct FaultSpec {
  double loss = 0;           ///< the packet vanishes
  double duplicate = 0;      ///< delivered twice, the copy at once or a few packets later
  double reorder = 0;        ///< held back until the next few packets have passed, 1 ms at most
  double corrupt = 0;        ///< one bit flips; the iCRC has to catch it
  double ecn = 0;            ///< an ECN-capable packet gets "congestion experienced"
  double trim = 0;           ///< a trimmable packet loses its payload, as in a switch
  double trim_last_hop = 0;  ///< the same, as in the switch before the receiver
  Duration delay{};          ///< added to every packet's latency
  Duration jitter{};         ///< further latency, uniform in [0, jitter): packets are reordered
  bool black_hole = false;   ///< all packets vanish in both directions; the link stays up
  bool down = false;         ///< the link is down, and the port reports it

  /// Equal in every field.
  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;

  /// True if anything is wrong at all.
  [[nodiscard]] bool any() const noexcept { return *this != FaultSpec{}; }
  /// True if all rates are probabilities and all times are from 0 to 60 s.
  [[nodiscard]] MRC_LOCAL bool valid() const noexcept;
};

/// Both specs in force, independently of one another: a packet is hit by a rate p or a rate q with
/// the probability p + q - pq, and times add up.
[[nodiscard]] FaultSpec combine(const FaultSpec& a, const FaultSpec& b) noexcept;

/// Throws Error if a value of the spec is out of range.
void check(const FaultSpec& spec);

}  // namespace mrc::inline v0_1::port
