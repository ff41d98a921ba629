// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/reliability/send_window.hpp"

namespace mrc::inline v0_1::reliability {

/// When a packet that the peer is silent about counts as lost (mrc-1.0 §2.9, [O-3]). A SACK covers
/// 64 packets and says nothing of the others, so a packet is only missing when a SACK that covers
/// it says so. A path keeps order; planes with many paths don't, since each has queues of its own.
struct LossRule {
  /// Packets that have been marked as passed since the last look: they are lost, however young.
  std::uint32_t passed = 0;
  /// A packet of this age is lost if a probe that was sent later has been answered; at 1.5 times
  /// the age if it was overtaken in its plane (or passed, and not reached by the look), at twice if
  /// it is absent.
  Duration age{};
};

/// Packets that a look for losses passes by at most.
inline constexpr std::uint32_t kMaxLossWalk = 64;
/// The same while there is one that is known to be lost.
inline constexpr std::uint32_t kMaxPassedWalk = 512;

/// At what age a packet is lost; kNever's duration if only a report can decide that.
[[nodiscard]] inline Duration lost_at_age(const SendWindow& window, Packet packet,
                                          Duration age) noexcept {
  if (window.probed_after(window.order_of(packet))) return age;
  const Missed missed = packet.missed();
  if (missed == Missed::overtaken || missed == Missed::passed) return age + age / 2;
  return missed == Missed::absent ? 2 * age : Duration::max();
}

/// Gives up the packets that the rule calls lost: f(psn, packet) for each just before, oldest
/// transmission first. Returns when to look again (kNever: not before the next report). Walks from
/// the packet sent longest ago to the first that is too young; past those too while passed ones are
/// missing.
template <class F>
Time infer_losses(SendWindow& window, Time now, LossRule rule, F&& f) noexcept {
  Time again = kNever;
  std::uint32_t walked = 0;  // outstanding packets sent before the one looked at
  SendOrder walk(window);
  while (!walk.done() && walked < (rule.passed > 0 ? kMaxPassedWalk : kMaxLossWalk)) {
    const Psn psn = walk.psn();
    const Packet packet = window.at(psn);
    // If nothing sent later has been reported, then nothing after the later ones either.
    if (rule.passed == 0 && window.reports_after(psn, walked) == 0) break;
    const Duration age = now - packet.sent();
    const Duration limit = lost_at_age(window, packet, rule.age);
    const bool passed = rule.passed > 0 && packet.missed() == Missed::passed;
    const bool lost = passed || age >= limit;
    rule.passed -= passed;
    // What no SACK has covered is looked at again when it could be, for one that does. Behind a
    // young packet, where the walk ends, may stand others that are lost sooner than it.
    const Duration next_look = age < rule.age             ? rule.age
                               : limit == Duration::max() ? 2 * rule.age
                                                          : limit;
    if (!lost && age < next_look) again = std::min(again, packet.sent() + next_look);
    if (!lost && age < rule.age && rule.passed == 0) break;
    walk.advance();
    if (lost) {
      f(psn, packet);
      window.lose(psn);
    } else {
      ++walked;
    }
  }
  return again;
}

}  // namespace mrc::inline v0_1::reliability
