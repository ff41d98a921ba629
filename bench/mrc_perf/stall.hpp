// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "session.hpp"

namespace mrc::perf {

/// Ends a run without progress. A queue pair gives up a peer that does not acknowledge, but only
/// with packets in flight: a peer that stops after acknowledging everything, but owes a credit or a
/// response, would be waited for forever. One thread.
class StallGuard {
 public:
  /// The limit is Parameters::give_up; by default, the time that a queue pair may need to give up
  /// (Session::patience()), but at least 10 s.
  explicit StallGuard(Session& session);

  /// Called repeatedly while the test waits; cheap. `moves` is a number that changes with any
  /// progress on this side; data packets, in or out, count without it. `waiting_for` returns the
  /// text after "waiting for". Throws Failure when the time is over.
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
  Time moved_ = kNever;  ///< kNever: not called yet
  std::uint64_t moves_ = 0, packets_ = 0;
};

}  // namespace mrc::perf
