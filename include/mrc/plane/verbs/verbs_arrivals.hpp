// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "mrc/plane/verbs/verbs_library.hpp"

namespace mrc::inline v0_1::port {

/// Takes the events of a completion channel that does not wait, which have served their purpose.
inline void drain_events(ibv_comp_channel* channel) noexcept {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (VerbsLibrary::get().get_cq_event(channel, &cq, &context) == 0)
    VerbsLibrary::get().ack_cq_events(cq, 1);
}

/// Polls a completion queue, and arms it: what comes in between is kept for the next poll. One
/// thread at a time.
class VerbsArrivals {
 public:
  static constexpr std::size_t kBatch = 64;  ///< completions that are kept

  /// Up to `out.size()` completions; returns how many. What arm() has found comes first.
  [[nodiscard]] std::size_t poll(ibv_cq* cq, std::span<ibv_wc> out) noexcept {
    if (count_ == 0) return poll_queue(cq, out);
    const std::size_t n = std::min(count_, out.size());
    std::copy_n(early_.begin(), n, out.begin());
    std::copy(early_.begin() + static_cast<std::ptrdiff_t>(n),
              early_.begin() + static_cast<std::ptrdiff_t>(count_), early_.begin());
    count_ -= n;
    return n;
  }
  /// Completions from now on tell the queue's channel. False: there are some already. `failed` is
  /// set if the queue can't do that.
  [[nodiscard]] bool arm(ibv_cq* cq, bool& failed) noexcept {
    if (ibv_req_notify_cq(cq, 0) != 0) failed = true;
    if (count_ == 0) count_ = poll_queue(cq, early_);
    return count_ == 0;
  }

 private:
  [[nodiscard]] static std::size_t poll_queue(ibv_cq* cq, std::span<ibv_wc> out) noexcept {
    return static_cast<std::size_t>(
        std::max(0, ibv_poll_cq(cq, static_cast<int>(out.size()), out.data())));
  }

  std::array<ibv_wc, kBatch> early_{};
  std::size_t count_ = 0;
};

}  // namespace mrc::inline v0_1::port
