// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::detail {

/// A queue of events with a descriptor that is readable while it is not empty. Counts and drops
/// events when full. Any thread; under its lock it calls nothing but push() of its copy.
template <class Event>
class EventQueue {
 public:
  /// Throws mrc::Error.
  explicit EventQueue(std::size_t capacity)
      : events_(capacity), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.open()) throw_errno("cannot open an event descriptor");
  }

  /// Further events go to `other`, too; null: to none.
  void copy_to(EventQueue* other) noexcept {
    const std::lock_guard lock(mutex_);
    copies_ = other;
  }
  void push(const Event& event) noexcept {
    const std::lock_guard lock(mutex_);
    if (copies_ != nullptr) copies_->push(event);
    if (!events_.push_back(event)) {
      ++dropped_;
      return;
    }
    const std::uint64_t one = 1;
    if (events_.size() == 1) (void)uncancelled::write(fd_.fd(), &one, sizeof one);
  }
  bool poll(Event& event) noexcept {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return false;
    event = events_.front();
    events_.pop_front();
    std::uint64_t count = 0;
    if (events_.empty()) (void)uncancelled::read(fd_.fd(), &count, sizeof count);
    return true;
  }
  template <class F>
  void remove_if(F&& is_gone) noexcept {
    const std::lock_guard lock(mutex_);
    for (std::size_t n = events_.size(); n > 0; --n) {
      const Event event = events_.front();
      events_.pop_front();
      if (!is_gone(event)) (void)events_.push_back(event);
    }
    std::uint64_t count = 0;
    if (events_.empty()) (void)uncancelled::read(fd_.fd(), &count, sizeof count);
  }
  [[nodiscard]] int fd() const noexcept { return fd_.fd(); }
  [[nodiscard]] std::uint64_t dropped() const noexcept {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  mutable std::mutex mutex_;
  Ring<Event> events_;
  UniqueFd fd_;
  EventQueue* copies_ = nullptr;
  std::uint64_t dropped_ = 0;
};

/// The events of a completion channel, by queue.
struct MRC_LOCAL ChannelEvents {
  explicit ChannelEvents(std::size_t queues) : events(queues) {}
  EventQueue<CqId> events;
};

/// Where the events of a device's completion queues go: to a descriptor (eventfd) of the queue, or
/// to a channel that queues share; it owns both. Threads that sleep in CompletionQueue::wait() have
/// a second descriptor, so that they take no event from the application.
///
/// Engines are armed for both, in every lane that serves the queue; the application gets one event
/// per arm(). Any thread. Each queue has a lock, which may be taken under a lane's; under it only
/// that of an EventQueue is taken.
class CqEvents {
 public:
  /// Numbers of queues are below `queues`.
  explicit CqEvents(std::size_t queues) : queues_(queues) {}

  void add(CqId cq, UniqueFd fd, std::shared_ptr<ChannelEvents> channel) {
    auto& entry = queues_[static_cast<std::size_t>(cq)];
    if (!entry) entry = std::make_unique<Queue>();
    const std::lock_guard lock(entry->mutex);
    entry->fd = std::move(fd);
    entry->channel = std::move(channel);
  }
  /// The queue goes. False, and nothing done, if events given for it are not acknowledged.
  [[nodiscard]] bool remove(CqId cq) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    if (queue.unacknowledged > 0) return false;
    if (queue.channel) queue.channel->events.remove_if([cq](CqId other) { return other == cq; });
    queue.fd = UniqueFd();
    queue.bed = UniqueFd();
    queue.channel.reset();
    queue.armed = Arm::none;
    queue.pending = false;
    return true;
  }

  /// By the application.
  void arm(CqId cq, Arm what) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    queue.armed = std::max(queue.armed, what);
  }
  /// What a lane that now serves the queue must arm it for, too.
  [[nodiscard]] Arm armed(CqId cq) const noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    return queue.wanted();
  }
  /// Returns what the thread sleeps on; end_sleep() must follow. -1 if no descriptors are left:
  /// then it has to look at the queue now and then.
  [[nodiscard]] int begin_sleep(CqId cq) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    ++queue.sleepers;
    if (!queue.bed.open()) queue.bed = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return queue.bed.fd();
  }
  /// Clears the descriptor; the next completion wakes others that still sleep.
  void end_sleep(CqId cq) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    --queue.sleepers;
    std::uint64_t count = 0;
    if (queue.bed.open()) (void)uncancelled::read(queue.bed.fd(), &count, sizeof count);
  }
  /// Wakes threads that sleep: there is something new about the queue.
  void wake(CqId cq) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    queue.wake();
  }

  /// An engine reports a completion in a queue that was armed; `solicited`: or an error. Returns
  /// what that engine has to arm the queue for again.
  [[nodiscard]] Arm signal(CqId cq, bool solicited) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    const bool wanted = queue.armed == Arm::all || (queue.armed == Arm::solicited && solicited);
    if (wanted) {
      queue.armed = Arm::none;
      if (queue.channel && !std::exchange(queue.pending, true)) queue.channel->events.push(cq);
    }
    if (wanted && !queue.channel) Queue::ring(queue.fd);
    queue.wake();
    return queue.wanted();
  }

  /// Takes the oldest event of a channel, for the application, which must acknowledge it.
  bool take(ChannelEvents& channel, CqId& cq) noexcept {
    while (channel.events.poll(cq)) {
      Queue& queue = at(cq);
      const std::lock_guard lock(queue.mutex);
      if (queue.channel.get() != &channel || !std::exchange(queue.pending, false))
        continue;  // closed meanwhile
      ++queue.unacknowledged;
      return true;
    }
    return false;
  }
  void acknowledge(CqId cq, unsigned n) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    queue.unacknowledged -= std::min(n, queue.unacknowledged);
  }

 private:
  struct alignas(64) Queue {  // a cache line of its own: used by different threads
    std::mutex mutex;
    UniqueFd fd;   ///< the application's
    UniqueFd bed;  ///< of threads in wait(); opened by the first that sleeps
    std::shared_ptr<ChannelEvents> channel;
    unsigned unacknowledged = 0;
    unsigned sleepers = 0;  ///< threads in wait() that sleep
    Arm armed = Arm::none;  ///< by the application
    bool pending = false;   ///< an event of it is in the channel: there is one at a time

    /// What engines must be armed for.
    [[nodiscard]] Arm wanted() const noexcept { return sleepers > 0 ? Arm::all : armed; }
    void wake() const noexcept {
      if (sleepers > 0) ring(bed);
    }
    static void ring(const UniqueFd& fd) noexcept {
      const std::uint64_t one = 1;
      if (fd.open()) (void)uncancelled::write(fd.fd(), &one, sizeof one);
    }
  };
  [[nodiscard]] Queue& at(CqId cq) const noexcept { return *queues_[static_cast<std::size_t>(cq)]; }

  std::vector<std::unique_ptr<Queue>> queues_;  ///< by CqId; entries stay, for the next of a number
};

}  // namespace mrc::inline v0_1::detail
