// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// DCQCN, the congestion control of RoCE networks: Zhu et al., "Congestion Control for Large-Scale
/// RDMA Deployments", SIGCOMM 2015. A switch marks packets (ECN), the receiver's NIC answers marks
/// with CNPs at a limited rate (notification point), the sender's NIC cuts the queue pair's rate on
/// a CNP and raises it again by time and by bytes (reaction point). The switch's part is in the
/// fabric; the paper marks from 5 KB of queue on, with a probability that rises to 1 % at 200 KB
/// and is 1 above, on 40 Gb/s links.
///
/// Differences of real NICs, by the published defaults of a common family, and why they are not
/// modelled:
/// - They increase more slowly (timer 300 us, steps of 5 and 50 Mb/s on any link). To avoid a
///   disadvantage for the baseline, the paper's faster values are used, scaled with the link.
/// - They update alpha every microsecond, so that it decays within a millisecond; the paper's
///   decays within about 14 ms. Both result from alpha_period and gain_shift; the default is the
///   paper's.
/// - They send CNPs at most every 4 us, and limit cuts to one in 4 us. Here it is 50 us between
///   CNPs, as in the paper.
/// - Some count that interval per port or per destination address, which starves some of the flows
///   of CNPs. Here it is per queue pair, as published.
///
/// Integer arithmetic only, so that runs are reproducible on every machine.

/// Parameters of a reaction point. Rates are in bits/s; 0 selects the default derived from the line
/// rate. The paper's network has 40 Gb/s links; its absolute steps would take ten times as long to
/// fill a 400 Gb/s link, so the defaults scale with the line rate.
struct DcqcnOptions {
  std::uint64_t line_rate = 100'000'000'000;  ///< initial and largest rate
  std::uint64_t min_rate = 0;                 ///< default line_rate / 1000 (40 Mb/s at 40 Gb/s)
  /// Step of the target rate in additive increase; default line_rate / 1000, the paper's 40 Mb/s
  /// at 40 Gb/s.
  std::uint64_t additive_increase = 0;
  /// Step of the target rate in hyper increase, times the number of the step; default 10 additive
  /// steps, the ratio in QCN (IEEE 802.1Qau) and in NICs.
  std::uint64_t hyper_increase = 0;
  /// Weight g = 2^-gain_shift of one observation in alpha: 1/256 as in the paper, close to current
  /// NICs (5/1024). DCTCP's 1/16 (shift 4) is also common in simulations; the paper shows that it
  /// makes rates oscillate. 1 .. 20.
  unsigned gain_shift = 8;
  /// Time without a CNP after which alpha decays by one step; longer than the CNP interval.
  Duration alpha_period{55'000};
  Duration increase_period{55'000};  ///< period of the increase timer
  /// Bytes of the byte counter. Not scaled: a fast link recovers slightly sooner, but at 100 Gb/s
  /// (800 us) it is still far slower than the timer, as intended by the paper.
  std::uint64_t byte_counter = 10'000'000;
  unsigned fast_recovery_steps = 5;  ///< F
};

/// The sender's side of DCQCN for one queue pair: rate() starts at the line rate, is cut by
/// on_cnp() and recovers in three phases. With T timer and B byte counter expiries since the last
/// CNP, each expiry halves the distance to the target rate; before that the target stays (T and B
/// up to F: fast recovery), rises by a fixed step (one of them above F: additive increase) or by a
/// growing one (both above F: hyper increase).
///
/// Lazy: no timer needs to be served. Every input carries the time and processes the expiries since
/// the previous one; advance() does only that. Time must not go back between calls. A plain value;
/// one thread at a time.
class DcqcnReactionPoint {
 public:
  /// Throws Error (invalid_argument) when an option is out of range.
  explicit DcqcnReactionPoint(const DcqcnOptions& options) : o_(checked(options)) {
    rate_ = target_ = o_.line_rate;
  }

  /// A CNP has arrived.
  void on_cnp(Time now) noexcept {
    advance(now);
    decay_alpha(now);
    target_ = rate_;
    rate_ = std::max(rate_ - multiply(rate_, alpha_) / 2, o_.min_rate);
    alpha_ += (kOne - alpha_) >> o_.gain_shift;
    alpha_at_ = now + o_.alpha_period;
    limited_ = true;
    increase_at_ = now + o_.increase_period;
    timer_steps_ = byte_steps_ = 0;
    bytes_ = 0;
  }

  /// A packet of this many bytes on the wire has been sent.
  void on_send(std::uint32_t bytes, Time now) noexcept {
    advance(now);
    if (!limited_) return;
    for (bytes_ += bytes; limited_ && bytes_ >= o_.byte_counter; bytes_ -= o_.byte_counter) {
      ++byte_steps_;
      increase();
    }
  }

  /// Processes the expiries up to `now`, so that rate() is current.
  void advance(Time now) noexcept {
    while (limited_ && increase_at_ <= now) {
      increase_at_ += o_.increase_period;
      ++timer_steps_;
      increase();
    }
  }

  /// Current rate in bits/s, as of the last call that carried a time.
  [[nodiscard]] std::uint64_t rate() const noexcept { return rate_; }
  /// Rate that recovery approaches, bits/s.
  [[nodiscard]] std::uint64_t target_rate() const noexcept { return target_; }
  /// Whether the rate is limited; false at line rate.
  [[nodiscard]] bool limited() const noexcept { return limited_; }
  /// When rate() changes next without input; kNever at line rate.
  [[nodiscard]] Time next_deadline() const noexcept { return limited_ ? increase_at_ : kNever; }
  /// Estimate of congestion, 0 .. 1, as of `now`.
  [[nodiscard]] double alpha(Time now) noexcept {
    decay_alpha(now);
    return static_cast<double>(alpha_) / static_cast<double>(kOne);
  }

 private:
  static constexpr unsigned kFraction = 30;  // bits of alpha
  static constexpr std::uint64_t kOne = std::uint64_t{1} << kFraction;

  static DcqcnOptions checked(DcqcnOptions o) {
    if (o.min_rate == 0) o.min_rate = o.line_rate / 1000;
    if (o.additive_increase == 0) o.additive_increase = o.line_rate / 1000;
    if (o.hyper_increase == 0) o.hyper_increase = 10 * o.additive_increase;
    const auto require = [](bool good, const char* what) {
      if (!good) throw Error(Errc::invalid_argument, what);
    };
    require(o.line_rate >= 1'000'000 && o.line_rate <= std::uint64_t{1} << 50,
            "dcqcn: line_rate must be 1 Mb/s .. 2^50 bits/s");
    require(o.min_rate <= o.line_rate, "dcqcn: min_rate is over the line rate");
    require(o.additive_increase <= o.line_rate && o.hyper_increase <= o.line_rate,
            "dcqcn: an increase step is over the line rate");
    require(o.gain_shift >= 1 && o.gain_shift <= 20, "dcqcn: gain_shift must be 1 .. 20");
    require(o.alpha_period > Duration{0} && o.increase_period > Duration{0},
            "dcqcn: periods must be positive");
    require(o.byte_counter > 0, "dcqcn: byte_counter must be positive");
    return o;
  }

  /// value * fraction / kOne, rounded down, without overflow.
  static std::uint64_t multiply(std::uint64_t value, std::uint64_t fraction) noexcept {
    return (value >> kFraction) * fraction + (((value & (kOne - 1)) * fraction) >> kFraction);
  }

  void decay_alpha(Time now) noexcept {
    // Rounded up, so that alpha reaches 0 and a long silence costs a bounded number of steps.
    // Before the first CNP alpha_at_ is kNever: alpha stays 1.
    for (; alpha_ > 0 && alpha_at_ <= now; alpha_at_ += o_.alpha_period)
      alpha_ -= (alpha_ + (std::uint64_t{1} << o_.gain_shift) - 1) >> o_.gain_shift;
  }

  void increase() noexcept {
    const unsigned least = std::min(timer_steps_, byte_steps_);
    if (least > o_.fast_recovery_steps)
      // Bounded against overflow of the product; such a step exceeds the line rate anyway.
      target_ += std::min(least - o_.fast_recovery_steps, 1000u) * o_.hyper_increase;
    else if (std::max(timer_steps_, byte_steps_) > o_.fast_recovery_steps)
      target_ += o_.additive_increase;
    target_ = std::min(target_, o_.line_rate);
    rate_ = (rate_ + target_) / 2;
    // Halving the distance would never end; a NIC releases its limiter at line rate.
    if (rate_ >= o_.line_rate - o_.line_rate / 1024) {
      rate_ = target_ = o_.line_rate;
      limited_ = false;
    }
  }

  DcqcnOptions o_;
  std::uint64_t rate_ = 0, target_ = 0;  // bits/s
  std::uint64_t alpha_ = kOne;           // in units of 2^-30
  std::uint64_t bytes_ = 0;              // since the byte counter expired
  Time alpha_at_ = kNever, increase_at_ = kNever;
  unsigned timer_steps_ = 0, byte_steps_ = 0;  // expiries since the last CNP
  bool limited_ = false;
};

/// The receiver's side of DCQCN for one queue pair: decides which marked packets are answered with
/// a CNP. A plain value; one thread at a time.
class DcqcnNotificationPoint {
 public:
  static constexpr Duration kDefaultInterval{50'000};  ///< the paper's N

  /// `interval`: minimum time between two CNPs; 0 answers every mark.
  explicit DcqcnNotificationPoint(Duration interval = kDefaultInterval) noexcept
      : interval_(interval) {}

  /// A packet has arrived; `marked`: with ECN CE. Returns true when a CNP is to be sent.
  [[nodiscard]] bool on_packet(Time now, bool marked) noexcept {
    if (!marked || now < quiet_until_) return false;
    quiet_until_ = now + interval_;
    return true;
  }

 private:
  Duration interval_;
  Time quiet_until_ = Time::min();
};

/// The rate limiter of one queue pair: spaces the starts of packets by the time that the earlier
/// one takes at the set rate. In whole picoseconds, since at 800 Gb/s a packet takes 41.8 ns. A
/// packet that is late because the port was busy with another queue pair does not lower the rate:
/// up to one packet's time is credited. No further credit accrues: after idling, a queue pair sends
/// at most two packets back to back.
///
/// Times lie between 0 and 100 days. A plain value; one thread at a time.
class Pacer {
 public:
  /// Sets the rate in bits/s; 0: no limit. Also applies to the wait in progress.
  void set_rate(std::uint64_t bits_per_second) noexcept {
    if (rate_ == bits_per_second) return;
    rate_ = bits_per_second;
    gap_ = gap();
  }
  /// The rate in bits/s; 0: no limit.
  [[nodiscard]] std::uint64_t rate() const noexcept { return rate_; }

  /// When the next packet may start, rounded up to a nanosecond; immediately if not after now.
  [[nodiscard]] Time ready() const noexcept {
    return Time{Duration{(start_ + gap_ + kPerNs - 1) / kPerNs}};
  }

  /// A packet of this many bytes on the wire starts, not before ready().
  void on_send(Time now, std::uint32_t wire_bytes) noexcept {
    // ready() rounds up by less than a nanosecond, which is credited too.
    const std::int64_t credit = std::max(gap_, kPerNs);
    start_ = std::max(start_ + gap_, now.time_since_epoch().count() * kPerNs - credit);
    bits_ = std::uint64_t{wire_bytes} * 8;
    gap_ = gap();
  }

 private:
  static constexpr std::int64_t kPerNs = 1000;  // picoseconds
  static constexpr std::uint64_t kPerSecond = 1'000'000'000'000;

  // Rounded up: the rate is never exceeded. Packets are under 2^20 bytes, so nothing overflows.
  [[nodiscard]] std::int64_t gap() const noexcept {
    return rate_ == 0 ? 0 : static_cast<std::int64_t>((bits_ * kPerSecond + rate_ - 1) / rate_);
  }

  std::uint64_t rate_ = 0, bits_ = 0;  // bits/s; size of the last packet
  std::int64_t start_ = 0, gap_ = 0;   // ps: start of the last packet, time that it takes
};

}  // namespace mrc::inline v0_1::sim::baseline
