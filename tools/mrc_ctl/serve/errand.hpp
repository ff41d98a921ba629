// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "mrc/core/types.hpp"

namespace mrc::ctl_tool {

/// What is said where ask() throws.
inline constexpr const char* kNoThread =
    "it can't be asked: this user has too many processes and threads (ulimit -u)";

/// A thread that does one thing each time it is asked to, for those who do not want to wait for it
/// longer than they like. Any thread.
class Errand {
 public:
  /// `what` must not throw, and takes a bounded time: the destructor waits for it.
  explicit Errand(std::function<void()> what) : what_(std::move(what)) {}
  ~Errand() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  /// Has it done, unless it is being done. False in that case. Throws std::system_error if there is
  /// no thread for it.
  bool ask() {
    {
      const std::lock_guard lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      if (std::exchange(asked_, true)) return false;
    }
    changed_.notify_all();
    return true;
  }
  /// Waits until it is done. False if it is not by then.
  [[nodiscard]] bool done_by(Time deadline) {
    std::unique_lock lock(mutex_);
    const auto left = deadline - monotonic_now();
    return changed_.wait_for(lock, left, [this] { return !asked_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return asked_ || ends_; });
      if (ends_) return;
      lock.unlock();
      what_();
      lock.lock();
      asked_ = false;
      changed_.notify_all();
    }
  }

  std::function<void()> what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;  ///< and not done
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mrc::ctl_tool
