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

/// What the user of a congestion control context says about the network, and what he may override
/// (mrc-1.0 §6.1; the names are those of the API's NSCC configuration). An empty optional means:
/// derive it.
struct NsccOptions {
  std::uint64_t link_speed = 100'000'000'000;         ///< bit/s
  Duration base_rtt = std::chrono::microseconds(12);  ///< upper bound; measurements lower it
  /// Measurements don't take base_rtt below this. For ports that work in batches, where one lucky
  /// packet would otherwise make every normal round trip look like a queue.
  Duration base_rtt_floor{0};
  std::uint32_t mtu = 4096;  ///< longest packet in bytes, headers included
  bool trimming = false;     ///< the switches trim instead of dropping

  std::optional<Duration> target_delay;       ///< queueing delay aimed at
  std::optional<std::uint64_t> max_cwnd;      ///< bytes
  std::optional<double> fi;                   ///< fair increase, bytes per round trip
  std::optional<double> fi_scale;             ///< fast increase, per byte acknowledged
  std::optional<double> eta;                  ///< bytes per adjust_period, always
  std::optional<Duration> qa_threshold;       ///< delay that starts quick adapt
  std::optional<std::uint32_t> adjust_bytes;  ///< apply increases after so many bytes ...
  std::optional<Duration> adjust_period;      ///< ... or this time
  double gamma = 0.8;                         ///< gain of the decrease, 0 .. 1
  double max_md_jump = 0.5;                   ///< least factor of one decrease, 0 .. 1
  unsigned qa_gate = 3;                       ///< quick adapt below max_cwnd >> qa_gate per round
  bool disable_qa = false;

  Duration zero_delay = std::chrono::microseconds(1);  ///< a delay up to this counts as none
  /// The average delay is weighted by time over base_rtt within these bounds per sample. Both at
  /// 0.0125 make it a plain average per sample.
  double delay_weight_min = 0.0125;
  double delay_weight_max = 0.25;

  std::uint32_t ack_gen_trigger = 16 * 1024;  ///< responders' SACK threshold in bytes
  /// Send while cwnd > inflight instead of inflight + size <= cwnd (mrc-1.0 [C-12]).
  bool send_while_below = false;
};

/// Everything that NSCC computes with (mrc-1.0 §6.1).
struct NsccParameters {
  double bytes_per_ns;  ///< link speed
  double scale;         ///< a: BDP / 150,000 B
  Duration base_rtt, base_rtt_floor, target_qdelay, adjust_period, qa_threshold, zero_delay;
  double max_wnd;      ///< bytes; also where cwnd starts
  bool max_wnd_fixed;  ///< given by the user, so it does not follow base_rtt
  double min_wnd;      ///< bytes: one MTU
  double alpha;        ///< bytes/s
  double fi, fi_scale, eta, adjust_bytes;
  double gamma, max_md_jump, delay_weight_min, delay_weight_max;
  unsigned qa_gate;
  std::uint32_t ack_gen_trigger;
  bool disable_qa, send_while_below;
};

namespace detail {

template <class T>
void require_range(const char* option, T value, T low, T high) {
  if (value >= low && value <= high) return;  // a NaN fails this
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

/// The window that fills a link: 1.5 times its bandwidth-delay product (mrc-1.0 §6.1, [C-20]),
/// at least one MTU. In bytes.
[[nodiscard]] inline double full_window(double bytes_per_ns, Duration base_rtt,
                                        double mtu) noexcept {
  return std::max(1.5 * bytes_per_ns * static_cast<double>(base_rtt.count()), mtu);
}

/// The parameters for a network, by the rules of mrc-1.0 §6.1: everything is scaled from a network
/// of 100 Gb/s and 12 us. Throws Error (invalid_argument), naming option, value and what is
/// allowed.
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
  // Without trimming a full queue loses packets, and there is nothing gained by stopping short of
  // one more round trip of queue.
  const Duration target = o.trimming ? o.base_rtt * 3 / 4 : o.base_rtt;
  p.target_qdelay = o.target_delay.value_or(std::max(target, Duration{1}));
  p.adjust_period = o.adjust_period.value_or(o.base_rtt);
  // Trims say more, and sooner, about a full queue than delay does.
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
