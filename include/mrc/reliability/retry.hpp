// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "mrc/core/types.hpp"
#include "mrc/engine/send_window.hpp"

namespace mrc::inline v0_1::reliability {

/// Largest n of timeout_value().
inline constexpr unsigned kMaxTimeoutExponent = 24;
/// Value of the exponential retry count for unlimited retries (mrc-1.0 §2.10).
inline constexpr unsigned kRetryForever = 25;

/// T(n) = 1.024 us x 2^n, n = 0 .. 24 (mrc-1.0 §2.10).
[[nodiscard]] constexpr Duration timeout_value(unsigned n) noexcept {
  return Duration{1024} * (std::int64_t{1} << std::min(n, kMaxTimeoutExponent));
}

/// The retry counters of a queue pair (mrc-1.0 §2.10, [C-8]): `linear` expirations after T, then
/// `exponential` ones after 2T, 4T .. T(24), then they are exhausted. Refusals (NACKs for lack of
/// resources) use up retries too, but do not lengthen the timeout, since the peer responds. A peer
/// that has received everything, answers probes and sends no Transport ACK costs no retries, but
/// has a limit of its own: kMostUnacknowledged expirations and kLongestUnacknowledged.
class RetryCounter {
 public:
  /// A live peer may leave a Transport ACK missing for so many expirations of the timer,
  static constexpr std::uint32_t kMostUnacknowledged = 32;
  /// and for so long if that is longer.
  static constexpr Duration kLongestUnacknowledged = std::chrono::seconds(10);

  RetryCounter() = default;
  /// `timeout_exponent`: n of T; `linear`, `exponential`: numbers of retries; `longest`: the n at
  /// which doubling ends.
  RetryCounter(unsigned timeout_exponent, unsigned linear, unsigned exponential,
               unsigned longest = kMaxTimeoutExponent) noexcept
      : exponent_(static_cast<std::uint8_t>(std::min(timeout_exponent, kMaxTimeoutExponent))),
        longest_(static_cast<std::uint8_t>(std::max<unsigned>(longest, exponent_))),
        linear_(static_cast<std::uint8_t>(linear)),
        exponential_(static_cast<std::uint8_t>(exponential)) {}

  /// Current timeout, at least `floor` (mrc-1.0 [O-20]: 2 x base_rtt).
  [[nodiscard]] Duration timeout(Duration floor) const noexcept {
    const unsigned doublings = expired_ > linear_ ? expired_ - linear_ : 0;
    return std::max(floor, timeout_value(std::min<unsigned>(exponent_ + doublings, longest_)));
  }
  /// Uses a retry for an expired timer; false if none is left.
  [[nodiscard]] bool take() noexcept {
    if (!take_refused()) return false;
    wait_longer();
    return true;
  }
  /// An expired timer that uses no retry: the timeout grows all the same.
  void wait_longer() noexcept {
    if (expired_ < linear_ + kMaxTimeoutExponent) ++expired_;
  }
  /// Uses a retry for a refusal; false if none is left.
  [[nodiscard]] bool take_refused() noexcept {
    if (exponential_ >= kRetryForever) {
      if (used_ < linear_ + kMaxTimeoutExponent) ++used_;
      return true;
    }
    if (used_ >= linear_ + exponential_) return false;
    ++used_;
    return true;
  }
  /// For an expired timer when everything has arrived and a probe was answered since the last one:
  /// the peer is alive, so no retry is used and all are restored. False once that has gone on for
  /// too long; never with unlimited retries. `floor`: as for timeout().
  [[nodiscard]] bool take_unacknowledged(Duration floor) noexcept {
    used_ = expired_ = 0;
    const bool too_long = unacknowledged_ >= kMostUnacknowledged &&
                          unacknowledged_ * timeout(floor) >= kLongestUnacknowledged;
    if (too_long && exponential_ < kRetryForever) return false;
    ++unacknowledged_;
    return true;
  }
  /// A reliability probe was answered.
  void on_answer() noexcept {
    ++answers_;
    answered_ = true;
  }
  /// Was a probe answered since the last call?
  [[nodiscard]] bool take_answered() noexcept { return std::exchange(answered_, false); }
  /// The peer made progress: restores all retries.
  void reset() noexcept {
    used_ = expired_ = 0;
    answers_ = unacknowledged_ = 0;
  }
  /// Retries taken since the last progress.
  [[nodiscard]] unsigned used() const noexcept { return used_; }
  /// Expirations since then, those of wait_longer(), which take no retry, included.
  [[nodiscard]] unsigned expired() const noexcept { return expired_; }
  /// Probes answered since the last progress.
  [[nodiscard]] std::uint32_t answers() const noexcept { return answers_; }

 private:
  std::uint8_t exponent_ = 12;
  std::uint8_t longest_ = kMaxTimeoutExponent;
  std::uint8_t linear_ = 7;
  std::uint8_t exponential_ = 10;
  bool answered_ = false;
  std::uint8_t used_ = 0;
  std::uint8_t expired_ = 0;
  std::uint32_t answers_ = 0;
  std::uint32_t unacknowledged_ = 0;  // expirations taken by take_unacknowledged()
};

/// The time from the last progress until fresh counters are exhausted, each timeout at least
/// `floor`. Not for those that never are.
[[nodiscard]] inline Duration give_up_time(RetryCounter retries, Duration floor) noexcept {
  Duration total{0};
  do {
    total += retries.timeout(floor);
  } while (retries.take());
  return total;
}

/// Smoothed round-trip time and its variation, as in RFC 6298: protects loss inference against
/// delays added by hosts (a receiver that is not scheduled), which base_rtt does not include.
class RttEstimator {
 public:
  /// Adds a measured round-trip time.
  void sample(Duration rtt) noexcept {
    latest_ = rtt;
    if (samples_ == 0) {
      smoothed_ = rtt;
      variation_ = rtt / 2;
    } else {
      const Duration error = rtt > smoothed_ ? rtt - smoothed_ : smoothed_ - rtt;
      variation_ += (error - variation_) / 4;
      smoothed_ += (rtt - smoothed_) / 8;
    }
    if (samples_ < 8) ++samples_;
  }
  /// Smoothed round-trip time; 0 before the first sample.
  [[nodiscard]] Duration smoothed() const noexcept { return smoothed_; }
  /// A round-trip time after which it pays to ask whether something was lost: as bound(), but
  /// neither one late sample nor a strong variation takes it far beyond the usual time. 0 before
  /// the first sample.
  [[nodiscard]] Duration usual() const noexcept {
    return smoothed_ + std::min(smoothed_, 4 * variation_);
  }
  /// Most round trips take no longer; of evenly spread ones none. 0 before the first sample.
  [[nodiscard]] Duration likely() const noexcept { return smoothed_ + 2 * variation_; }
  /// The newest sample and a quarter: after a stall of the peer its other responses are as late.
  [[nodiscard]] Duration recent() const noexcept { return latest_ + latest_ / 4; }
  /// A rarely exceeded round-trip time; 0 before the first sample. At least 1.25 times the latest
  /// sample: after a stall of the peer its other responses are as late.
  [[nodiscard]] Duration bound() const noexcept {
    return std::max(smoothed_ + 4 * variation_, recent());
  }

 private:
  Duration latest_{};
  Duration smoothed_{};
  Duration variation_{};
  std::uint8_t samples_ = 0;
};

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
