// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "mrc/cc/account.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/time.hpp"

namespace mrc::inline v0_1::cc {

/// What the user of a congestion control context specifies about the network, and overrides of
/// derived parameters (mrc-1.0 §6.1; names as in the API's NSCC configuration). An empty optional
/// is derived.
struct NsccOptions {
  std::uint64_t link_speed = 100'000'000'000;         ///< bit/s
  Duration base_rtt = std::chrono::microseconds(12);  ///< upper bound; measurements lower it
  /// Measurements don't lower base_rtt below this. For ports that batch, where the minimum measured
  /// RTT is unrepresentative and would make every normal round trip look queued.
  Duration base_rtt_floor{0};
  std::uint32_t mtu = 4096;  ///< longest packet in bytes, headers included
  bool trimming = false;     ///< the switches trim instead of dropping

  std::optional<Duration> target_delay;       ///< queueing delay aimed at
  std::optional<std::uint64_t> max_cwnd;      ///< bytes
  std::optional<double> fi;                   ///< fair increase, bytes per round trip
  std::optional<double> fi_scale;             ///< fast increase, bytes per byte acknowledged
  std::optional<double> eta;                  ///< unconditional increase, bytes per adjust_period
  std::optional<Duration> qa_threshold;       ///< delay that starts quick adapt
  std::optional<std::uint32_t> adjust_bytes;  ///< apply pending increases after so many bytes
  std::optional<Duration> adjust_period;      ///< or after this time, whichever comes first
  double gamma = 0.8;                         ///< gain of the decrease, 0 .. 1
  double max_md_jump = 0.5;                   ///< smallest factor of one decrease, 0 .. 1
  unsigned qa_gate = 3;                       ///< quick adapt below max_cwnd >> qa_gate per round
  bool disable_qa = false;                    ///< turns quick adapt off

  Duration zero_delay = std::chrono::microseconds(1);  ///< delays up to this count as zero
  /// The weight of a delay sample, time since the previous one over base_rtt, is clamped to these
  /// bounds. Both at 0.0125 give a plain moving average per sample.
  double delay_weight_min = 0.0125;
  /// Upper bound of the weight.
  double delay_weight_max = 0.25;

  std::uint32_t ack_gen_trigger = 16 * 1024;  ///< responders' SACK threshold in bytes
  /// Send while cwnd > inflight instead of inflight + size <= cwnd (mrc-1.0 [C-12]).
  bool send_while_below = false;
};

/// Parameters of NSCC in the form it computes with (mrc-1.0 §6.1).
struct NsccParameters {
  double bytes_per_ns;            ///< link speed, bytes per ns
  double scale;                   ///< a: BDP / 150,000 B
  Duration base_rtt;              ///< as in NsccOptions
  Duration base_rtt_floor;        ///< as in NsccOptions
  Duration target_qdelay;         ///< queueing delay aimed at
  Duration adjust_period;         ///< as in NsccOptions
  Duration qa_threshold;          ///< as in NsccOptions
  Duration zero_delay;            ///< as in NsccOptions
  double max_wnd;                 ///< bytes; also the initial cwnd
  bool max_wnd_fixed;             ///< set by the user, so it does not follow base_rtt
  double min_wnd;                 ///< bytes: one MTU
  double alpha;                   ///< bytes/s
  double fi;                      ///< as in NsccOptions
  double fi_scale;                ///< as in NsccOptions
  double eta;                     ///< as in NsccOptions
  double adjust_bytes;            ///< as in NsccOptions
  double gamma;                   ///< as in NsccOptions
  double max_md_jump;             ///< as in NsccOptions
  double delay_weight_min;        ///< as in NsccOptions
  double delay_weight_max;        ///< as in NsccOptions
  unsigned qa_gate;               ///< as in NsccOptions
  std::uint32_t ack_gen_trigger;  ///< as in NsccOptions
  bool disable_qa;                ///< as in NsccOptions
  bool send_while_below;          ///< as in NsccOptions
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

/// Derives the parameters for a network by the rules of mrc-1.0 §6.1: all are scaled from a network
/// of 100 Gb/s and 12 us. Throws Error (invalid_argument) that names option, value and allowed
/// range.
[[nodiscard]] inline NsccParameters derive(const NsccOptions& o) {
  detail::validate(o);
  constexpr double kReferenceBdp = 150'000;  // bytes
  constexpr double kReferenceRtt = 12e-6;    // seconds
  const auto mtu = static_cast<double>(o.mtu);

  NsccParameters p{};
  p.bytes_per_ns = static_cast<double>(o.link_speed) / 8e9;
  p.scale = p.bytes_per_ns * static_cast<double>(o.base_rtt.count()) / kReferenceBdp;
  p.base_rtt = o.base_rtt;
  p.base_rtt_floor = o.base_rtt_floor;
  // Without trimming a full queue drops packets; a target below one round trip of queueing gains
  // nothing.
  const Duration target = o.trimming ? o.base_rtt * 3 / 4 : o.base_rtt;
  p.target_qdelay = o.target_delay.value_or(std::max(target, Duration{1}));
  p.adjust_period = o.adjust_period.value_or(o.base_rtt);
  // Trims indicate a full queue earlier and more reliably than delay.
  p.qa_threshold = o.qa_threshold.value_or(o.trimming ? Duration::max() : 4 * p.target_qdelay);
  p.zero_delay = o.zero_delay;
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
  p.gamma = o.gamma;
  p.max_md_jump = o.max_md_jump;
  p.delay_weight_min = o.delay_weight_min;
  p.delay_weight_max = o.delay_weight_max;
  p.qa_gate = o.qa_gate;
  p.ack_gen_trigger = o.ack_gen_trigger;
  p.disable_qa = o.disable_qa;
  p.send_while_below = o.send_while_below;
  return p;
}

}  // namespace mrc::inline v0_1::cc
