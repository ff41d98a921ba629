// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include "mrc/core/time.hpp"

namespace mrc_nccl {

/// Limits how many lines a log gets of one thing: kBurst at once, then one every kInterval. A plain
/// value; time is an argument.
class LineBudget {
 public:
  static constexpr int kBurst = 4;
  static constexpr mrc::Duration kInterval = std::chrono::seconds(10);

  /// True if a line may be written now; it is counted.
  [[nodiscard]] bool take(mrc::Time now) noexcept {
    if (full_at_ < now) full_at_ = now;
    if (full_at_ - now > (kBurst - 1) * kInterval) return false;
    full_at_ += kInterval;
    return true;
  }

 private:
  mrc::Time full_at_ = mrc::Time::min();  // when the whole burst is there again
};

}  // namespace mrc_nccl
