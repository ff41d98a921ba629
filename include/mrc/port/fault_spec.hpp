// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/error.hpp"
#include "mrc/core/time.hpp"

namespace mrc::inline v0_1::port {

/// What goes wrong on a port or on one path. Rates are probabilities per packet, 0 .. 1. Where
/// several apply, the order is: down or black_hole, loss, trimming, corruption, ECN, duplication,
/// then holding back (reorder, delay).
struct FaultSpec {
  double loss = 0;           ///< the packet vanishes
  double duplicate = 0;      ///< it comes twice, the second time at once or a few packets later
  double reorder = 0;        ///< it is overtaken by the next few packets, for 1 ms at most
  double corrupt = 0;        ///< one bit flips; the iCRC has to catch it
  double ecn = 0;            ///< an ECN-capable packet gets "congestion experienced"
  double trim = 0;           ///< a trimmable packet loses its payload, as in a switch
  double trim_last_hop = 0;  ///< the same in the switch before the receiver
  Duration delay{};          ///< every packet comes so much later
  Duration jitter{};         ///< plus a uniform share of this; packets overtake one another
  bool black_hole = false;   ///< everything vanishes in both directions, and nobody notices
  bool down = false;         ///< the link is down, and the port says so

  /// Equal in every field.
  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;

  /// True if anything is wrong at all.
  [[nodiscard]] bool any() const noexcept { return *this != FaultSpec{}; }
  /// True if all rates are probabilities and all times are from 0 to 60 s.
  [[nodiscard]] bool valid() const noexcept {
    const auto rate = [](double p) { return p >= 0 && p <= 1; };
    const auto time = [](Duration d) { return d >= Duration{} && d <= std::chrono::minutes{1}; };
    return rate(loss) && rate(duplicate) && rate(reorder) && rate(corrupt) && rate(ecn) &&
           rate(trim) && rate(trim_last_hop) && time(delay) && time(jitter);
  }
};

/// Both specs at work, independently of one another: rates combine, times add up.
[[nodiscard]] inline FaultSpec combine(const FaultSpec& a, const FaultSpec& b) noexcept {
  const auto either = [](double p, double q) { return p + q - p * q; };
  FaultSpec c;
  c.loss = either(a.loss, b.loss);
  c.duplicate = either(a.duplicate, b.duplicate);
  c.reorder = either(a.reorder, b.reorder);
  c.corrupt = either(a.corrupt, b.corrupt);
  c.ecn = either(a.ecn, b.ecn);
  c.trim = either(a.trim, b.trim);
  c.trim_last_hop = either(a.trim_last_hop, b.trim_last_hop);
  c.delay = a.delay + b.delay;
  c.jitter = a.jitter + b.jitter;
  c.black_hole = a.black_hole || b.black_hole;
  c.down = a.down || b.down;
  return c;
}

/// Throws Error if a value of the spec is out of range.
inline void check(const FaultSpec& spec) {
  if (!spec.valid())
    throw Error(Errc::invalid_argument,
                "fault: rates must be from 0 to 1, delay and jitter from 0 to 60 s");
}

/// Packets that each kind of fault has hit. A packet can be hit by several.
struct FaultStats {
  std::uint64_t lost = 0;         ///< dropped
  std::uint64_t duplicated = 0;   ///< delivered twice
  std::uint64_t reordered = 0;    ///< overtaken by later packets
  std::uint64_t corrupted = 0;    ///< one bit flipped
  std::uint64_t marked = 0;       ///< ECN set to CE
  std::uint64_t trimmed = 0;      ///< both kinds of trimming
  std::uint64_t delayed = 0;      ///< held back by delay or jitter
  std::uint64_t black_holed = 0;  ///< in and out
  std::uint64_t link_down = 0;    ///< received while down, or refused for sending
  std::uint64_t overflow = 0;     ///< dropped because too many packets were held back already
};

}  // namespace mrc::inline v0_1::port
