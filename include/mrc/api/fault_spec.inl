// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "mrc/api/fault_spec.hpp"
#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::port {

bool FaultSpec::valid() const noexcept {
  const auto rate = [](double p) { return p >= 0 && p <= 1; };
  const auto time = [](Duration d) { return d >= Duration{} && d <= std::chrono::minutes{1}; };
  return rate(loss) && rate(duplicate) && rate(reorder) && rate(corrupt) && rate(ecn) &&
         rate(trim) && rate(trim_last_hop) && time(delay) && time(jitter);
}

FaultSpec combine(const FaultSpec& a, const FaultSpec& b) noexcept {
  const auto either = [](double p, double q) { return p + q - p * q; };
  FaultSpec c;
  c.loss = either(a.loss, b.loss);
  c.duplicate = either(a.duplicate, b.duplicate);
  c.reorder = either(a.reorder, b.reorder);
  c.corrupt = either(a.corrupt, b.corrupt);
  c.ecn = either(a.ecn, b.ecn);
  c.trim = either(a.trim, b.trim);
  c.trim_last_hop = either(a.trim_last_hop, b.trim_last_hop);
  c.delay = a.delay + b.delay;
  c.jitter = a.jitter + b.jitter;
  c.black_hole = a.black_hole || b.black_hole;
  c.down = a.down || b.down;
  return c;
}

void check(const FaultSpec& spec) {
  if (!spec.valid())
    throw Error(Errc::invalid_argument,
                "fault: rates must be from 0 to 1, delay and jitter from 0 to 60 s");
}

}  // namespace mrc::inline v0_1::port
