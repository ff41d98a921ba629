// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/reliability/send_window.hpp"

namespace mrc::reliability {

/// When a packet that the peer is silent about counts as lost (mrc-1.0 §2.9, [O-3]). A SACK covers
/// 64 packets and says nothing of the others, so a packet is only missing when a SACK that covers
/// it says so; and a plane keeps order much better than planes keep pace with each other.
struct LossRule {
  /// It is overtaken in its plane, and this many packets sent later have arrived.
  std::uint32_t reordering = 3;
  /// It is overtaken in its plane, or a probe sent later was answered, and this long has passed
  /// since its transmission; or it is absent after twice that.
  Duration age{};
};

/// R of [O-3]: paths may reorder as many packets as are under way on different ones at a time,
/// which is 1.5 x the paths in use, each holding a burst; never more than the window holds.
[[nodiscard]] constexpr std::uint32_t reordering_threshold(std::uint32_t active_paths,
                                                           std::uint32_t burst,
                                                           std::uint64_t window_packets) noexcept {
  const std::uint64_t spread = std::uint64_t{active_paths} * burst * 3 / 2;
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>(3, std::min(spread, std::max<std::uint64_t>(window_packets, 3))));
}

/// Packets that a look for losses passes by at most.
inline constexpr std::uint32_t kMaxLossWalk = 64;

/// Gives up the packets that the rule calls lost: f(psn, record) for each, oldest transmission
/// first. Returns when to look again (kNever: not before the next report). Walks from the packet
/// sent longest ago to the first that is too young.
template <class F>
Time infer_losses(SendWindow& window, Time now, const LossRule& rule, F&& f) noexcept {
  Time again = kNever;
  std::uint32_t passed = 0;  // outstanding packets sent before the one looked at
  Psn psn;
  if (window.outstanding() > 0) psn = window.oldest_sent();
  while (passed < window.outstanding() && passed < kMaxLossWalk) {
    const PacketRecord& record = window.at(psn);
    const std::uint32_t reports = window.reports_after(psn, passed);
    if (reports == 0) break;  // so there are none after the later ones either
    const Duration age = now - record.sent;
    const bool overtaken = record.missed == Missed::overtaken;
    const bool absent = record.missed != Missed::unknown;
    const bool lost = (overtaken && reports >= rule.reordering) ||
                      (age >= rule.age && (overtaken || window.probed_after(record.order))) ||
                      (age >= 2 * rule.age && absent);
    // Later than that only a report can change the verdict.
    if (!lost && age < 2 * rule.age)
      again = std::min(again, record.sent + (age < rule.age ? 1 : 2) * rule.age);
    const bool last = passed + 1 == window.outstanding();
    const Psn next = last ? psn : window.next_sent(psn);
    if (lost) {
      window.lose(psn);
      f(psn, record);
    } else if (age < rule.age) {
      break;
    } else {
      ++passed;
    }
    if (last) break;
    psn = next;
  }
  return again;
}

}  // namespace mrc::reliability
