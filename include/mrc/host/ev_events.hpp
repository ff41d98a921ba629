// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "mrc/api/profile_types.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::detail {

/// EV events that wait for a reader (mrc-1.0 §3.7). When there is no room, an event is dropped, and
/// the next one that finds room says how many were. Any thread; it has a lock of its own, under
/// which it calls nothing.
class MRC_LOCAL EvEventQueue {
 public:
  /// Room for `depth` events. Throws mrc::Error.
  explicit EvEventQueue(std::size_t depth)
      : events_(depth), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.open()) throw_errno("cannot open an event descriptor");
  }

  /// Appends an event; event.drop_count were lost before it got here.
  void push(EvEvent event) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint64_t lost = std::uint64_t{dropped_} + event.drop_count;
    event.drop_count = static_cast<std::uint32_t>(std::min<std::uint64_t>(lost, UINT32_MAX));
    if (!events_.push_back(event)) {
      dropped_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(lost + 1, UINT32_MAX));
      return;
    }
    dropped_ = 0;
    const std::uint64_t one = 1;
    if (events_.size() == 1) (void)uncancelled::write(fd_.fd(), &one, sizeof one);
  }
  /// Takes the oldest events. Returns how many.
  std::size_t poll(std::span<EvEvent> out) noexcept {
    if (fork_.forked()) return 0;  // the lock may be held by a thread that is not here
    const std::lock_guard lock(mutex_);
    std::size_t n = 0;
    for (; n < out.size() && !events_.empty(); ++n) {
      out[n] = events_.front();
      events_.pop_front();
    }
    std::uint64_t count = 0;
    if (n > 0 && events_.empty()) (void)uncancelled::read(fd_.fd(), &count, sizeof count);
    return n;
  }
  /// Readable while there are events.
  [[nodiscard]] int fd() const noexcept { return fd_.fd(); }

 private:
  const ForkMark fork_;
  std::mutex mutex_;
  Ring<EvEvent> events_;
  UniqueFd fd_;
  std::uint32_t dropped_ = 0;  ///< since the newest event that found room
};

/// Gives EV events to all queues that there are. Any thread; its lock may be taken under a lane's.
class EvEvents {
 public:
  /// In a forked child: no thread of the parent held the lock.
  [[nodiscard]] bool at_rest() noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }
  /// Events go there, too, from now on, while another owner holds the queue.
  void add(const std::shared_ptr<EvEventQueue>& queue) {
    const std::lock_guard lock(mutex_);
    std::erase_if(queues_, [](const auto& other) { return other.expired(); });
    queues_.push_back(queue);
    any_ = true;
  }
  /// Whether somebody reads.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  void push(const EvEvent& event) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(queues_, [&](const auto& entry) {
      const auto queue = entry.lock();
      if (queue) queue->push(event);
      return queue == nullptr;
    });
    any_ = !queues_.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<EvEventQueue>> queues_;
  std::atomic<bool> any_{false};
};

}  // namespace mrc::inline v0_1::detail
