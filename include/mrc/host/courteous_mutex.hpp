// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace mrc::inline v0_1::detail {

/// A mutex that knows whether a thread waits for it, so that a thread that locks it in a loop can
/// yield to the others. Any thread.
class CourteousMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  /// Call without holding the lock: returns once no thread waits for it.
  void let_others_in() const noexcept {
    while (waiting_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

}  // namespace mrc::inline v0_1::detail
