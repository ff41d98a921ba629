// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::cc {

/// Settings of NSCC that it uses as they are (mrc-1.0 §6.1).
struct NsccSettings {
  Duration base_rtt = std::chrono::microseconds(12);  ///< upper bound; measurements lower it
  /// Measurements don't lower base_rtt below this. For ports that batch: their shortest RTT would
  /// make every normal round trip look queued.
  Duration base_rtt_floor{0};
  Duration zero_delay = std::chrono::microseconds(1);  ///< delays up to this count as zero
  double gamma = 0.8;                                  ///< gain of the decrease, 0 .. 1
  double max_md_jump = 0.5;                            ///< smallest factor of one decrease, 0 .. 1
  /// Bounds of the weight of a delay sample, time since the previous one over base_rtt. Both at
  /// 0.0125 give a plain moving average per sample.
  double delay_weight_min = 0.0125;
  double delay_weight_max = 0.25;             ///< the upper one
  unsigned qa_gate = 3;                       ///< quick adapt below max_cwnd >> qa_gate per round
  std::uint32_t ack_gen_trigger = 16 * 1024;  ///< responders' SACK threshold in bytes
  bool disable_qa = false;                    ///< turns quick adapt off
  /// Send while cwnd > inflight instead of inflight + size <= cwnd (mrc-1.0 [C-12]).
  bool send_while_below = false;
};

/// What the user specifies about the network, and overrides of derived parameters (names as in the
/// API's NSCC configuration). An empty optional is derived.
struct NsccOptions : NsccSettings {
  std::uint64_t link_speed = 100'000'000'000;  ///< bit/s
  std::uint32_t mtu = 4096;                    ///< longest packet in bytes, headers included
  bool trimming = false;                       ///< the switches trim instead of dropping

  std::optional<Duration> target_delay;       ///< queueing delay aimed at
  std::optional<std::uint64_t> max_cwnd;      ///< bytes
  std::optional<double> fi;                   ///< fair increase, bytes per round trip
  std::optional<double> fi_scale;             ///< fast increase, bytes per byte acknowledged
  std::optional<double> eta;                  ///< unconditional increase, bytes per adjust_period
  std::optional<Duration> qa_threshold;       ///< delay that starts quick adapt
  std::optional<std::uint32_t> adjust_bytes;  ///< apply pending increases after so many bytes
  std::optional<Duration> adjust_period;      ///< or after this time, whichever comes first
};

/// Parameters of NSCC in the form it computes with. Those without a comment are as in NsccOptions.
struct NsccParameters : NsccSettings {
  double bytes_per_ns;     ///< link speed
  double scale;            ///< a: BDP / 150,000 B
  Duration target_qdelay;  ///< queueing delay aimed at
  Duration adjust_period, qa_threshold;
  double max_wnd;      ///< bytes; also the initial cwnd
  bool max_wnd_fixed;  ///< set by the user, so it does not follow base_rtt
  double min_wnd;      ///< bytes: one MTU
  double alpha;        ///< bytes/s
  double fi, fi_scale, eta, adjust_bytes;
};

namespace detail {

template <class T>
void require_range(const char* option, T value, T low, T high) {
  if (value >= low && value <= high) return;  // false for a NaN
  throw Error(Errc::invalid_argument, std::string("congestion control option ") + option + ": " +
                                          std::to_string(value) + " is not within " +
                                          std::to_string(low) + " .. " + std::to_string(high));
}

inline void require_range(const char* option, Duration value, Duration low, Duration high) {
  require_range((std::string(option) + " (ns)").c_str(), value.count(), low.count(), high.count());
}

inline void validate(const NsccOptions& o) {
  constexpr Duration kNanosecond{1};
  constexpr Duration kZero{0};
  constexpr double kMost = 1e12;
  require_range<std::uint64_t>("link_speed", o.link_speed, 1'000'000, 100'000'000'000'000);
  require_range("base_rtt", o.base_rtt, kNanosecond, BaseRtt::kLargest);
  require_range("base_rtt_floor", o.base_rtt_floor, kZero, BaseRtt::kLargest);
  require_range<std::uint32_t>("mtu", o.mtu, 64, 1u << 20);
  if (o.target_delay)
    require_range("target_delay", *o.target_delay, kNanosecond, BaseRtt::kLargest);
  if (o.max_cwnd) require_range<std::uint64_t>("max_cwnd", *o.max_cwnd, o.mtu, 1ull << 40);
  if (o.fi) require_range("fi", *o.fi, 0.0, kMost);
  if (o.fi_scale) require_range("fi_scale", *o.fi_scale, 0.0, kMost);
  if (o.eta) require_range("eta", *o.eta, 0.0, kMost);
  if (o.qa_threshold) require_range("qa_threshold", *o.qa_threshold, kZero, Duration::max());
  if (o.adjust_period) require_range("adjust_period", *o.adjust_period, kZero, BaseRtt::kLargest);
  require_range("gamma", o.gamma, 0.0, 1.0);
  require_range("max_md_jump", o.max_md_jump, 0.0, 1.0);
  require_range("qa_gate", o.qa_gate, 0u, 31u);
  require_range("zero_delay", o.zero_delay, kZero, BaseRtt::kLargest);
  require_range("delay_weight_min", o.delay_weight_min, 0.0, 1.0);
  require_range("delay_weight_max", o.delay_weight_max, o.delay_weight_min, 1.0);
}

}  // namespace detail

/// The window that fills a link: 1.5 bandwidth-delay products (mrc-1.0 §6.1, [C-20]), at least one
/// MTU. In bytes.
[[nodiscard]] inline double full_window(double bytes_per_ns, Duration base_rtt,
                                        double mtu) noexcept {
  return std::max(1.5 * bytes_per_ns * static_cast<double>(base_rtt.count()), mtu);
}

/// The parameters for a network, scaled from one of 100 Gb/s and 12 us (mrc-1.0 §6.1). Throws Error
/// (invalid_argument) that names option, value and allowed range.
[[nodiscard]] inline NsccParameters derive(const NsccOptions& o) {
  detail::validate(o);
  constexpr double kReferenceBdp = 150'000;  // bytes
  constexpr double kReferenceRtt = 12e-6;    // seconds
  const auto mtu = static_cast<double>(o.mtu);

  NsccParameters p{};
  static_cast<NsccSettings&>(p) = o;
  p.bytes_per_ns = static_cast<double>(o.link_speed) / 8e9;
  p.scale = p.bytes_per_ns * static_cast<double>(o.base_rtt.count()) / kReferenceBdp;
  // Without trimming a full queue drops packets; a target below one round trip of queueing gains
  // nothing.
  const Duration target = o.trimming ? o.base_rtt * 3 / 4 : o.base_rtt;
  p.target_qdelay = o.target_delay.value_or(std::max(target, Duration{1}));
  p.adjust_period = o.adjust_period.value_or(o.base_rtt);
  // Trims indicate a full queue earlier and more reliably than delay.
  p.qa_threshold = o.qa_threshold.value_or(o.trimming ? Duration::max() : 4 * p.target_qdelay);
  p.max_wnd_fixed = o.max_cwnd.has_value();
  p.max_wnd =
      o.max_cwnd ? static_cast<double>(*o.max_cwnd) : full_window(p.bytes_per_ns, o.base_rtt, mtu);
  p.min_wnd = mtu;
  // alpha = 4 MTU a b / target with b = target / 12 us: the target cancels out.
  p.alpha = 4 * mtu * p.scale / kReferenceRtt;
  p.fi = o.fi.value_or(5 * mtu * p.scale);
  p.fi_scale = o.fi_scale.value_or(0.25 * p.scale);
  p.eta = o.eta.value_or(0.15 * mtu * p.scale);
  p.adjust_bytes = o.adjust_bytes ? static_cast<double>(*o.adjust_bytes) : 8 * mtu;
  return p;
}

/// NSCC, the network-signalled congestion control of UET and MRC ("uet-1.0-nscc", mrc-1.0 §6): a
/// window steered by two signals of each SACK, an ECN mark and the queueing delay.
///
///               | delay < target                 | delay >= target
///      no mark  | proportional or fast increase  | fair increase
///      mark     | nothing: one bad path          | multiplicative decrease
///
/// It starts at max_wnd, or its share of that (on_hint()), and stays between one MTU and max_wnd
/// for any input. Besides, share_limit() limits the bytes in flight. Counters are doubles: exact to
/// 2^53 bytes, without wraparound. One thread at a time.
class Nscc {
 public:
  /// Throws Error (invalid_argument) when an option is out of range.
  explicit Nscc(const NsccOptions& options) : Nscc(derive(options)) {}
  explicit Nscc(const NsccParameters& parameters) noexcept
      : p_(parameters),
        base_rtt_(p_.base_rtt, p_.base_rtt_floor),
        inverse_base_rtt_(1.0 / ns(p_.base_rtt)),
        max_wnd_(p_.max_wnd),
        cwnd_(p_.max_wnd) {}

  /// Destinations that share a link share what fills it (share_limit()).
  void share(HostLink& link) noexcept { inflight_.share(link); }
  /// The window starts at its share, unless a packet is in flight or the network has answered: what
  /// is measured is better than a hint.
  void on_hint(std::uint64_t sharers) noexcept {
    sharers_ = static_cast<double>(std::max<std::uint64_t>(sharers, 1));
    if (fresh()) cwnd_ = start_window();
  }
  void on_send(std::uint32_t bytes, Time) noexcept { inflight_.add(bytes); }
  void on_sack(const SackSample& sack) noexcept;
  void on_nack(std::uint32_t bytes, bool trimmed, Time now) noexcept;
  void on_loss(std::uint32_t bytes, Time) noexcept { shrink_by_lost(bytes); }
  void on_timeout(std::uint32_t bytes, unsigned consecutive, Time now) noexcept;
  /// Lowers base_rtt, and with it the largest window.
  void on_rtt(Duration rtt) noexcept {
    if (BaseRtt::plausible(rtt)) lower_base_rtt(rtt);
  }
  void on_forget(std::uint32_t bytes) noexcept { inflight_.subtract(bytes); }

  /// Whether the packet fits the limit(), by the rule of NsccOptions::send_while_below.
  [[nodiscard]] bool can_send(std::uint32_t bytes) const noexcept {
    const std::int64_t inflight = inflight_.bytes();
    if (inflight <= 0) return true;  // one packet is always allowed
    const auto most = static_cast<std::int64_t>(limit());
    return p_.send_while_below ? most > inflight : inflight + bytes <= most;
  }
  /// Asks for a SACK when the limit() is nearly reached or small.
  [[nodiscard]] bool wants_ack() const noexcept {
    // Otherwise it might wait for a SACK that is never sent.
    const double most = limit();
    return most - static_cast<double>(inflight_.bytes()) < p_.min_wnd ||
           most < static_cast<double>(p_.ack_gen_trigger);
  }
  [[nodiscard]] std::uint64_t window() const noexcept { return static_cast<std::uint64_t>(cwnd_); }
  [[nodiscard]] std::int64_t inflight() const noexcept { return inflight_.bytes(); }
  [[nodiscard]] Duration base_rtt() const noexcept { return base_rtt_.value(); }
  [[nodiscard]] Duration target_qdelay() const noexcept { return p_.target_qdelay; }

  /// Current upper bound of window(), in bytes.
  [[nodiscard]] std::uint64_t max_window() const noexcept {
    return static_cast<std::uint64_t>(max_wnd_);
  }
  /// Average queueing delay, for statistics.
  [[nodiscard]] Duration average_delay() const noexcept {
    return Duration{static_cast<Duration::rep>(avg_delay_)};
  }
  [[nodiscard]] const NsccParameters& parameters() const noexcept { return p_; }

 private:
  static constexpr std::uint8_t kPenaltyMask = 0x7F;
  // Full windows that the shares of all destinations add up to (share_limit()).
  static constexpr std::uint32_t kSharedWindows = 2;
  // Least packets of a part of the window: enough for SACKs to show losses as gaps.
  static constexpr double kLeastPackets = 4;
  // Long before any event, but without overflow when subtracted.
  static constexpr Time kLongAgo{Duration::min() / 2};

  static double ns(Duration d) noexcept { return static_cast<double>(d.count()); }
  void set_window(double bytes) noexcept {
    cwnd_ = std::clamp(bytes, p_.min_wnd, max_wnd_);
    adapted_ = true;
  }
  [[nodiscard]] bool fresh() const noexcept { return !adapted_ && inflight_.bytes() == 0; }
  [[nodiscard]] double part_of_window(double part) const noexcept;
  [[nodiscard]] double start_window() const noexcept { return part_of_window(1 / sharers_); }
  [[nodiscard]] double share_limit() const noexcept;
  /// Most bytes in flight.
  [[nodiscard]] double limit() const noexcept { return std::min(cwnd_, share_limit()); }

  void apply_penalty(const SackSample& sack, double newly) noexcept;
  void lower_base_rtt(Duration rtt) noexcept;
  void average(double delay, Time now) noexcept;
  void steer(const SackSample& sack, double newly, Duration delay, bool limited) noexcept;
  [[nodiscard]] bool fast_increase(double newly, Duration delay) noexcept;
  void decrease(Time now) noexcept;
  [[nodiscard]] bool quick_adapt(bool loss, bool ecn, Duration delay, Time now) noexcept;
  void fulfill(Time now) noexcept;
  void shrink_by_lost(std::uint32_t bytes) noexcept;

  NsccParameters p_;
  BaseRtt base_rtt_;
  double inverse_base_rtt_;  // 1/ns: saves a division per sample
  Inflight inflight_;
  double max_wnd_, cwnd_;  // bytes
  double sharers_ = 1;     // windows that start at the same time, this one included
  double saved_cwnd_ = 0;  // window before the receiver's penalty, 0: none saved
  double avg_delay_ = 0;   // ns
  double inc_bytes_ = 0;   // pending increases, bytes^2: divided by cwnd when applied
  double received_ = 0;    // bytes since increases were last applied
  double achieved_ = 0;    // bytes received in this quick-adapt round
  double fi_count_ = 0;    // consecutive bytes received without delay
  double bytes_to_ignore_ = 0, bytes_ignored_ = 0;  // in flight since before a quick adapt
  Time qa_end_{}, last_adjust_{}, last_decrease_ = kLongAgo, last_sample_ = kLongAgo;
  bool qa_running_ = false, adjusting_ = false;  // qa_end_, last_adjust_ are valid
  bool trigger_qa_ = false;
  bool increase_mode_ = false;
  bool adapted_ = false;  // the network has had a say in cwnd_
};

/// A part of max_wnd, but at least kLeastPackets packets, and responders' SACK threshold, below
/// which each packet would ask for a SACK (wants_ack()).
inline double Nscc::part_of_window(double part) const noexcept {
  const double least =
      std::max(kLeastPackets * p_.min_wnd, static_cast<double>(p_.ack_gen_trigger));
  return std::min(std::max(max_wnd_ * part, least), max_wnd_);
}

/// max_wnd fills the host's link. To n destinations more than that only waits in queues, those of
/// receivers above all, which n hosts send to in an all-to-all. So all limits add up to two full
/// windows: one for the link, one for what slower destinations leave to others. NSCC's window
/// itself does not change.
inline double Nscc::share_limit() const noexcept {
  const HostLink* link = inflight_.link();
  if (link == nullptr || link->destinations <= kSharedWindows) return max_wnd_;
  return part_of_window(static_cast<double>(kSharedWindows) / link->destinations);
}

/// One SACK, mrc-1.0 §6.3. Without a valid round-trip time it only updates the bytes in flight and
/// the receiver's penalty.
inline void Nscc::on_sack(const SackSample& sack) noexcept {
  adapted_ = true;
  const auto newly = static_cast<double>(sack.newly);
  apply_penalty(sack, newly);
  inflight_.subtract(sack.newly - std::min(sack.newly, sack.early));
  bytes_ignored_ += newly;
  received_ += newly;
  achieved_ += newly;
  if (!sack.has_rtt || !BaseRtt::plausible(sack.rtt)) return;

  lower_base_rtt(sack.rtt);
  // Negative only with a base_rtt_floor.
  const Duration delay = std::max(sack.rtt - base_rtt_.value(), Duration::zero());
  average(ns(delay), sack.now);
  const bool limited = (sack.rcv_cwnd_pen & kPenaltyMask) != 0;
  if (!quick_adapt(false, sack.ecn, delay, sack.now)) steer(sack, newly, delay, limited);

  if (!adjusting_) {
    adjusting_ = true;
    last_adjust_ = sack.now;
  }
  if (limited) return;  // no increase, not even a pending one
  if (sack.now - last_adjust_ >= p_.adjust_period || received_ > p_.adjust_bytes) fulfill(sack.now);
}

/// Host congestion at the receiver, mrc-1.0 §6.7: a penalty of 64 sustained for one round trip
/// halves the window, after reducing it to the part in use: the bytes in flight before this SACK,
/// plus one packet that did not fit. Less would stall a sender that fills its window.
inline void Nscc::apply_penalty(const SackSample& sack, double newly) noexcept {
  const unsigned penalty = sack.rcv_cwnd_pen & kPenaltyMask;
  if (penalty > 0) {
    if (sack.restore_cwnd && saved_cwnd_ == 0) saved_cwnd_ = cwnd_;
    const double used = static_cast<double>(inflight_.bytes()) + p_.min_wnd;
    set_window(std::min(cwnd_, used) - penalty * newly / 128);
  } else if (sack.restore_cwnd && saved_cwnd_ > 0) {
    set_window(saved_cwnd_);
    saved_cwnd_ = 0;
  }
}

inline void Nscc::lower_base_rtt(Duration rtt) noexcept {
  if (!base_rtt_.observe(rtt)) return;
  inverse_base_rtt_ = 1.0 / ns(base_rtt_.value());
  if (p_.max_wnd_fixed) return;
  max_wnd_ = full_window(p_.bytes_per_ns, base_rtt_.value(), p_.min_wnd);
  cwnd_ = fresh() ? start_window() : std::min(cwnd_, max_wnd_);
}

/// Weights a sample by its time, so that the average does not depend on how often SACKs come.
inline void Nscc::average(double delay, Time now) noexcept {
  const double weight = std::clamp(ns(now - last_sample_) * inverse_base_rtt_, p_.delay_weight_min,
                                   p_.delay_weight_max);
  avg_delay_ += weight * (delay - avg_delay_);
  last_sample_ = now;
}

/// The four quadrants, mrc-1.0 §6.3.
inline void Nscc::steer(const SackSample& sack, double newly, Duration delay,
                        bool limited) noexcept {
  const bool queued = delay >= p_.target_qdelay;
  if (sack.ecn) {
    if (queued) decrease(sack.now);
  } else if (limited) {
    // Limited by the receiver: no increase.
  } else if (queued) {
    inc_bytes_ += p_.fi * newly;  // the queue is at the destination: increase towards a fair share
  } else if (!fast_increase(newly, delay)) {
    inc_bytes_ += p_.alpha * 1e-9 * newly * ns(p_.target_qdelay - delay);
  }
}

/// No delay for a whole window: the network is idle, so increase quickly (mrc-1.0 §6.4).
inline bool Nscc::fast_increase(double newly, Duration delay) noexcept {
  if (delay <= p_.zero_delay) {
    fi_count_ += newly;
    if (fi_count_ > cwnd_ || increase_mode_) {
      set_window(cwnd_ + newly * p_.fi_scale);
      increase_mode_ = true;
      return true;
    }
  } else {
    fi_count_ = 0;
  }
  increase_mode_ = false;
  return false;
}

/// At most once per round trip, in proportion to how far the average lies above the target.
inline void Nscc::decrease(Time now) noexcept {
  increase_mode_ = false;
  fi_count_ = 0;
  const double target = ns(p_.target_qdelay);
  if (avg_delay_ <= target || now - last_decrease_ <= base_rtt_.value()) return;
  set_window(cwnd_ * std::max(1 - p_.gamma * (avg_delay_ - target) / avg_delay_, p_.max_md_jump));
  last_decrease_ = now;
}

/// Under heavy congestion sets the window to what was received in the last round (mrc-1.0 §6.5).
/// Returns true when this event must not change the window further.
inline bool Nscc::quick_adapt(bool loss, bool ecn, Duration delay, Time now) noexcept {
  if (p_.disable_qa) return false;
  bool done = false;
  if (bytes_ignored_ < bytes_to_ignore_ && ecn) {
    done = true;  // the mark refers to packets sent before the last adaptation
  } else if (!qa_running_ || now >= qa_end_) {
    const double gate = max_wnd_ / static_cast<double>(std::uint64_t{1} << p_.qa_gate);
    if (qa_running_ && (trigger_qa_ || loss || delay > p_.qa_threshold) && achieved_ < gate) {
      set_window(achieved_);
      bytes_to_ignore_ = static_cast<double>(std::max<std::int64_t>(inflight_.bytes(), 0));
      bytes_ignored_ = 0;
      trigger_qa_ = false;
      done = true;
    }
    achieved_ = 0;
    qa_end_ = now + base_rtt_.value() + p_.target_qdelay;
    qa_running_ = true;
  }
  if (done) inc_bytes_ = received_ = 0;
  return done;
}

/// Applies the increases accumulated since the last time.
inline void Nscc::fulfill(Time now) noexcept {
  double cwnd = cwnd_ + inc_bytes_ / cwnd_;
  if (now - last_adjust_ >= p_.adjust_period) {
    cwnd += p_.eta;
    last_adjust_ = now;
  }
  set_window(cwnd);
  inc_bytes_ = received_ = 0;
}

/// A NACK removes the packet from the bytes in flight; one for a trimmed packet is also the
/// strongest signal of a full queue (mrc-1.0 §6.6).
inline void Nscc::on_nack(std::uint32_t bytes, bool trimmed, Time now) noexcept {
  inflight_.subtract(bytes);
  if (!trimmed) return;
  average(ns(p_.base_rtt), now);
  bytes_ignored_ += bytes;
  trigger_qa_ = true;
  if (!quick_adapt(true, true, Duration::zero(), now)) set_window(cwnd_ - bytes);
}

inline void Nscc::shrink_by_lost(std::uint32_t bytes) noexcept {
  inflight_.subtract(bytes);
  bytes_ignored_ += bytes;
  set_window(cwnd_ - bytes);
}

/// mrc-1.0 [O-7]: treated as an inferred loss; after two in a row the state of the network is
/// unknown, and the window restarts from one packet.
inline void Nscc::on_timeout(std::uint32_t bytes, unsigned consecutive, Time) noexcept {
  shrink_by_lost(bytes);
  if (consecutive < 2) return;
  set_window(p_.min_wnd);
  increase_mode_ = false;
  fi_count_ = inc_bytes_ = received_ = 0;
}

static_assert(CongestionControl<Nscc>);

}  // namespace mrc::inline v0_1::cc
