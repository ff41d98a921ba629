// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "mrc/core/system_error.hpp"

namespace mrc::inline v0_1::detail {

/// How many forks lie between the start of the program and this process.
inline std::atomic<std::uint32_t> fork_generation{0};

/// Tells an object whether this process is the one that made it, or a child that was forked since.
/// In the child, locks may be held by threads that do not exist there, and what they guard may be
/// half changed. A mark costs a load and a comparison. It sees fork() only: children of a bare
/// clone() system call, or of _Fork(), are not recognised.
///
/// Any thread.
class ForkMark {
 public:
  /// Throws mrc::Error if forks can't be watched.
  ForkMark() : made_((watch_forks(), fork_generation.load(std::memory_order_relaxed))) {}
  /// This process is a child of the one that made the mark.
  [[nodiscard]] bool forked() const noexcept {
    return fork_generation.load(std::memory_order_relaxed) != made_;
  }

 private:
  static void watch_forks() {
    static const int error = ::pthread_atfork(
        nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
    if (error != 0) throw_errno("cannot watch for forks of this process", error);
  }

  std::uint32_t made_;
};

}  // namespace mrc::inline v0_1::detail
