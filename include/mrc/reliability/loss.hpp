// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/reliability/send_window.hpp"

namespace mrc::inline v0_1::reliability {

/// When an unreported packet counts as lost (mrc-1.0 §2.9, [O-3]). A SACK covers 64 packets and
/// carries no information on others, so a packet is missing only if a SACK that covers it shows it
/// missing. A path preserves order; planes with many paths don't, since each path has its own
/// queues.
struct LossRule {
  /// Number of packets marked as passed (Missed::passed) since the last call: lost at any age.
  std::uint32_t passed = 0;
  /// A packet is lost at 1.75 times this age if it is absent: the queues of paths differ, and most
  /// just after a failure, when paths that are called bad by mistake are missed most. With 1.5 one
  /// packet in eight was then only late; more lengthens the tail of messages that lost a packet.
  Duration age{};
  /// A packet of this age is lost if a probe sent after it has been answered. At most `age`.
  Duration probed{};
  /// A packet of this age is lost if it was passed but not counted in `passed`, or is beyond this
  /// call's walk limit. At most `age`.
  Duration passed_age{};
  /// The sender itself did not run for this long,
  Duration stalled{};
  /// until then. It does not count for the age of packets sent before.
  Time stalled_until = Time::min();

  /// Age at which an absent packet is lost.
  [[nodiscard]] Duration absent_age() const noexcept { return age + age * 3 / 4; }
  /// From when on the age of a packet sent at `sent` counts.
  [[nodiscard]] Time begin(Time sent) const noexcept {
    return sent < stalled_until ? std::min(sent + stalled, stalled_until) : sent;
  }
};

/// Most packets that one walk over the send order visits.
inline constexpr std::uint32_t kMaxLossWalk = 64;
/// The same while packets marked as passed are still to be found.
inline constexpr std::uint32_t kMaxPassedWalk = 512;

/// Age at which a packet is lost; Duration::max() if only a SACK can decide that.
[[nodiscard]] inline Duration lost_at_age(const SendWindow& window, Packet packet,
                                          const LossRule& rule) noexcept {
  const Missed missed = packet.missed();
  const bool probed = window.probed_after(window.order_of(packet));
  if (missed == Missed::passed) return std::min(rule.passed_age, probed ? rule.probed : rule.age);
  if (probed) return rule.probed;
  return missed == Missed::absent ? rule.absent_age() : Duration::max();
}

/// Marks the packets that the rule declares lost: f(psn, packet) is called just before each, oldest
/// transmission first. Returns when to call again (kNever: not before the next SACK). Walks from
/// the packet sent longest ago to the first that is too young, or further while passed packets are
/// still to be found.
template <class F>
Time infer_losses(SendWindow& window, Time now, LossRule rule, F&& f) noexcept {
  Time again = kNever;
  std::uint32_t walked = 0;  // outstanding packets sent before the current one
  const Duration young = std::min(rule.probed, rule.passed_age);
  SendOrder walk(window);
  while (!walk.done() && walked < (rule.passed > 0 ? kMaxPassedWalk : kMaxLossWalk)) {
    const Psn psn = walk.psn();
    const Packet packet = window.at(psn);
    // No packet sent later was reported, which then holds for the packets after it too.
    if (rule.passed == 0 && window.reports_after(psn, walked) == 0) break;
    const Time begin = rule.begin(packet.sent());
    const Duration age = now - begin;
    const Duration limit = lost_at_age(window, packet, rule);
    const bool passed = rule.passed > 0 && packet.missed() == Missed::passed;
    const bool lost = passed || age >= limit;
    rule.passed -= passed;
    // Look again at packets that no SACK has covered once one covering them could have arrived.
    // Packets after the young one that ends the walk may be lost sooner than it.
    const Duration next_look = age < young                ? young
                               : limit != Duration::max() ? limit
                               : age < rule.age           ? rule.age
                                                          : rule.absent_age();
    if (!lost && age < next_look) again = std::min(again, begin + next_look);
    if (!lost && age < young && rule.passed == 0) break;
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
