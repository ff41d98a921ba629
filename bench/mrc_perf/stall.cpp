// SPDX-License-Identifier: Apache-2.0
#include "stall.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "units.hpp"

namespace mrc::perf {
namespace {

constexpr Duration kUsualLimit = std::chrono::seconds(10);
/// Reading a device's counters takes a lock.
constexpr Duration kSlowestPace = std::chrono::milliseconds(250);
constexpr int kLooks = 16;  ///< within the limit, at least

}  // namespace

StallGuard::StallGuard(Session& session)
    : session_(session),
      limit_(session.parameters().give_up > Duration{} ? session.parameters().give_up
                                                       : std::max(kUsualLimit, session.patience())),
      pace_(std::min(kSlowestPace, limit_ / kLooks)) {}

bool StallGuard::stalled(Time now, std::uint64_t moves) {
  const EngineStats engine = session_.device().stats().engine;
  const std::uint64_t packets = engine.tx_data + engine.rx_data;
  // A process that was stopped for a while has not been waiting either.
  const bool slept = moved_ != kNever && now - next_ > limit_ / 2;
  next_ = now + pace_;
  if (moved_ == kNever || slept || moves != moves_ || packets != packets_) {
    moved_ = now;
    moves_ = moves;
    packets_ = packets;
  }
  return now - moved_ >= limit_;
}

void StallGuard::fail(const std::string& waiting_for) const {
  throw Failure(
      fmt::format("gave up after {:.1f} s without progress, waiting for {}; {} may be stopped or "
                  "stuck: see whether it runs and start both sides again, or allow more time with "
                  "--give-up",
                  seconds(limit_), waiting_for, session_.control().peer()));
}

}  // namespace mrc::perf
