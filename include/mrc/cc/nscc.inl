// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/cc/nscc.hpp"

namespace mrc::inline v0_1::cc {
namespace detail {

void require_range(const char* option, Duration value, Duration low, Duration high) {
  require_range((std::string(option) + " (ns)").c_str(), value.count(), low.count(), high.count());
}

void validate(const NsccOptions& o) {
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

NsccParameters derive(const NsccOptions& o) {
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

}  // namespace mrc::inline v0_1::cc
