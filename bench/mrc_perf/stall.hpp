// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "session.hpp"

namespace mrc::perf {

/// Ends a run in which nothing moves any more. A queue pair gives up a peer that does not
/// acknowledge, but only while something is under way: a peer that is stopped when everything is
/// acknowledged, and then owes a credit or an answer, would be waited for without end. One thread.
class StallGuard {
 public:
  /// The time is Parameters::give_up; without one, what a queue pair may need to give up
  /// (Session::patience()), but 10 s at least.
  explicit StallGuard(Session& session);

  /// To be called again and again while the test waits; cheap. `moves` is a number that changes
  /// when this side does anything; data packets, in or out, count by themselves.
  /// `waiting_for` returns words that follow "waiting for". Throws Failure when the time is over.
  template <class F>
  void look(Time now, std::uint64_t moves, F&& waiting_for) {
    if (now >= next_ && stalled(now, moves)) fail(waiting_for());
  }

 private:
  [[nodiscard]] bool stalled(Time now, std::uint64_t moves);
  [[noreturn]] void fail(const std::string& waiting_for) const;

  Session& session_;
  Duration limit_;
  Duration pace_;
  Time next_{};
  Time moved_ = kNever;  ///< kNever: not looked yet
  std::uint64_t moves_ = 0, packets_ = 0;
};

}  // namespace mrc::perf
