// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/reliability/send_window.hpp"

namespace mrc::reliability {

/// When a packet that the peer is silent about counts as lost (mrc-1.0 §2.9, [O-3]).
struct LossRule {
  /// This many packets sent later have arrived.
  std::uint32_t reordering = 3;
  /// One packet sent later has arrived, and this long has passed since the transmission.
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

/// Gives up the packets that the rule calls lost: f(psn, record) for each, oldest transmission
/// first. Returns when to look again (kNever: not before the next report). Cost: one step per lost
/// packet, since the packet sent longest ago is always the first to become lost.
template <class F>
Time infer_losses(SendWindow& window, Time now, const LossRule& rule, F&& f) noexcept {
  while (window.outstanding() > 0) {
    const std::uint32_t reports = window.reports_after_oldest();
    if (reports == 0) return kNever;
    const Psn psn = window.oldest_sent();
    const PacketRecord& record = window.at(psn);
    if (reports < rule.reordering && now - record.sent < rule.age) return record.sent + rule.age;
    window.lose(psn);
    f(psn, record);
  }
  return kNever;
}

}  // namespace mrc::reliability
