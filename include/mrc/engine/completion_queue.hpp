// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "mrc/core/containers.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::engine {

/// A completion queue inside an engine. A completion that does not fit is never lost silently: the
/// queue is overrun from then on and its queue pairs move to ERR. One thread.
class CompletionRing {
 public:
  /// `depth`: number of completions that fit.
  explicit CompletionRing(std::uint32_t depth) : ring_(depth) {}

  /// False: no room; the queue is overrun from now on.
  bool push(const Completion& c) noexcept {
    if (ring_.push_back(c)) return true;
    overrun_ = true;
    return false;
  }
  /// Moves the oldest completions to `out`, as many as fit; returns how many.
  std::size_t poll(std::span<Completion> out) noexcept {
    const std::size_t n = std::min(out.size(), ring_.size());
    for (std::size_t i = 0; i < n; ++i) {
      out[i] = ring_.front();
      ring_.pop_front();
    }
    return n;
  }
  /// Removes the completions of a queue pair; fn(Completion) is told of each.
  template <class F>
  void discard(Qpn qpn, F&& fn) noexcept {
    for (std::size_t n = ring_.size(); n > 0; --n) {
      const Completion c = ring_.front();
      ring_.pop_front();
      if (c.qpn == qpn)
        fn(c);
      else
        (void)ring_.push_back(c);
    }
  }
  /// Completions waiting to be polled.
  [[nodiscard]] std::size_t size() const noexcept { return ring_.size(); }
  /// True once a completion did not fit; polling does not reset it.
  [[nodiscard]] bool overrun() const noexcept { return overrun_; }

  std::uint32_t users = 0;  ///< queue pairs attached, counted once for send and once for receive
  Arm armed = Arm::none;    ///< what raises an event, once
  bool signalled = false;   ///< its completion event waits to be polled
  bool solicited = false;   ///< a completion of that event is solicited or an error
  bool failing = false;     ///< its overrun was reported; its queue pairs move to ERR
  bool keeps = false;       ///< some of its queue pairs are as in verbs (QpInit::as_verbs)

 private:
  Ring<Completion> ring_;
  bool overrun_ = false;
};

}  // namespace mrc::inline v0_1::engine
