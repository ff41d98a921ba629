// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mrc/core/unique_fd.hpp"
#include "mrc/device/event_queue.hpp"
#include "mrc/engine/types.hpp"

namespace mrc::inline v0_1::detail {

/// The events of a completion channel, by queue.
struct ChannelEvents {
  /// Room for one event of each of `queues` completion queues.
  explicit ChannelEvents(std::size_t queues) : events(queues) {}
  EventQueue<CqId> events;
};

/// Where the events of a device's completion queues go: to a descriptor (eventfd) of the queue, or
/// to a channel that queues share. Owns both: those of queues that outlive their handle are closed
/// with the device.
///
/// Engines arm queues for the application and for threads that sleep in CompletionQueue::wait(), in
/// every lane that serves the queue. This class knows for whom: one event per arm() of the
/// application, whatever else was armed.
///
/// Any thread; it has a lock of its own, which may be taken under a lane's lock.
class CqEvents {
 public:
  /// A new queue with its descriptor, and its channel or null.
  void add(CqId cq, UniqueFd fd, std::shared_ptr<ChannelEvents> channel) {
    const std::lock_guard lock(mutex_);
    if (index(cq) >= queues_.size()) queues_.resize(index(cq) + 1);
    Queue& queue = queues_[index(cq)];
    queue = {};
    queue.fd = std::move(fd);
    queue.channel = std::move(channel);
  }
  void remove(CqId cq) noexcept {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[index(cq)];
    if (queue.channel) queue.channel->events.remove_if([cq](CqId other) { return other == cq; });
    queue = {};
  }

  /// The application arms the queue: the next such event is for it.
  void arm(CqId cq, Arm what) noexcept {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[index(cq)];
    queue.armed = std::max(queue.armed, what);
  }
  /// What a lane that now serves the queue must arm it for, too.
  [[nodiscard]] Arm armed(CqId cq) const noexcept {
    const std::lock_guard lock(mutex_);
    const Queue& queue = queues_[index(cq)];
    return queue.sleepers > 0 ? Arm::all : queue.armed;
  }
  /// A thread will sleep on the queue's descriptor, and arms the queue for that; end_sleep() must
  /// follow.
  void begin_sleep(CqId cq) noexcept {
    const std::lock_guard lock(mutex_);
    ++queues_[index(cq)].sleepers;
  }
  void end_sleep(CqId cq) noexcept {
    const std::lock_guard lock(mutex_);
    --queues_[index(cq)].sleepers;
  }
  /// Wakes the threads that sleep: there is something new about the queue.
  void wake(CqId cq) noexcept {
    const std::lock_guard lock(mutex_);
    if (queues_[index(cq)].sleepers > 0) write_to(queues_[index(cq)].fd);
  }

  /// An engine reports a completion in a queue that was armed; `solicited`: or an error. Returns
  /// what that engine has to arm the queue for again.
  [[nodiscard]] Arm signal(CqId cq, bool solicited) noexcept {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[index(cq)];
    const bool wanted = queue.armed == Arm::all || (queue.armed == Arm::solicited && solicited);
    if (wanted) {
      queue.armed = Arm::none;
      if (queue.channel && !std::exchange(queue.pending, true)) queue.channel->events.push(cq);
    }
    if ((wanted && !queue.channel) || queue.sleepers > 0) write_to(queue.fd);
    return queue.armed;
  }

  /// Takes the oldest event of a channel, for the application, which must acknowledge it.
  bool take(ChannelEvents& channel, CqId& cq) noexcept {
    const std::lock_guard lock(mutex_);
    if (!channel.events.poll(cq)) return false;
    ++queues_[index(cq)].unacknowledged;
    queues_[index(cq)].pending = false;
    return true;
  }
  /// `n` events were acknowledged.
  void acknowledge(CqId cq, unsigned n) noexcept {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[index(cq)];
    queue.unacknowledged -= n < queue.unacknowledged ? n : queue.unacknowledged;
  }
  /// Events given and not acknowledged.
  [[nodiscard]] unsigned unacknowledged(CqId cq) const noexcept {
    const std::lock_guard lock(mutex_);
    return queues_[index(cq)].unacknowledged;
  }

 private:
  struct Queue {
    UniqueFd fd;
    std::shared_ptr<ChannelEvents> channel;
    unsigned unacknowledged = 0;
    unsigned sleepers = 0;  ///< threads in wait() that sleep
    Arm armed = Arm::none;  ///< by the application
    bool pending = false;   ///< an event of it is in the channel: there is one at a time
  };
  [[nodiscard]] static std::size_t index(CqId cq) noexcept { return static_cast<std::size_t>(cq); }
  static void write_to(const UniqueFd& fd) noexcept {
    const std::uint64_t one = 1;
    if (fd.open()) (void)!::write(fd.fd(), &one, sizeof one);
  }

  mutable std::mutex mutex_;
  std::vector<Queue> queues_;
};

}  // namespace mrc::inline v0_1::detail
