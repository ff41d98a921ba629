// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/api/device_stats.hpp"
#include "mrc/api/profile_types.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::detail {

/// A queue of events with a descriptor (eventfd) that is readable while it is not empty. Fixed
/// size: when it is full, further events are dropped and counted. Any thread; it has a lock of its
/// own, under which it calls nothing but push() of its copy.
template <class Event>
class EventQueue {
 public:
  /// Room for `capacity` events. Throws mrc::Error.
  explicit EventQueue(std::size_t capacity)
      : events_(capacity), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.open()) throw_errno("cannot open an event descriptor");
  }

  /// Further events go to `other`, too; null: to none.
  void copy_to(EventQueue* other) noexcept {
    const std::lock_guard lock(mutex_);
    copies_ = other;
  }
  /// Appends an event.
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
  /// Takes the oldest event. False if there is none.
  bool poll(Event& event) noexcept {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return false;
    event = events_.front();
    events_.pop_front();
    std::uint64_t count = 0;
    if (events_.empty()) (void)uncancelled::read(fd_.fd(), &count, sizeof count);
    return true;
  }
  /// Removes the events that `is_gone` holds for.
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
  /// Readable while there are events.
  [[nodiscard]] int fd() const noexcept { return fd_.fd(); }
  /// Events that found no room.
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
  /// Room for one event of each of `queues` completion queues.
  explicit ChannelEvents(std::size_t queues) : events(queues) {}
  EventQueue<CqId> events;
};

/// Where the events of a device's completion queues go: to a descriptor (eventfd) of the queue, or
/// to a channel that queues share. Owns both: those of queues that outlive their handle are closed
/// with the device. Threads that sleep in CompletionQueue::wait() have a second descriptor, so that
/// they take no event from the application, which polls and clears the first one.
///
/// Engines arm queues for the application and for threads that sleep in CompletionQueue::wait(), in
/// every lane that serves the queue. This class knows for whom: one event per arm() of the
/// application, whatever else was armed.
///
/// Any thread. Each queue has a lock of its own, which may be taken under a lane's lock; under it
/// only that of an EventQueue is taken.
class CqEvents {
 public:
  /// Numbers of queues are below `queues`.
  explicit CqEvents(std::size_t queues) : queues_(queues) {}

  /// A new queue with its descriptor, and its channel or null.
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

  /// The application arms the queue: the next such event is for it.
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
  /// A thread will sleep on the descriptor that is returned, and arms the queue for that;
  /// end_sleep() must follow. -1 if there are no descriptors left: then nobody wakes it, and it has
  /// to look at the queue now and then (Lanes::sleep(): each millisecond).
  [[nodiscard]] int begin_sleep(CqId cq) noexcept {
    Queue& queue = at(cq);
    const std::lock_guard lock(queue.mutex);
    ++queue.sleepers;
    if (!queue.bed.open()) queue.bed = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return queue.bed.fd();
  }
  /// It no longer sleeps. Clears the descriptor, which other threads may have made readable for it;
  /// those that still sleep are woken again by the next completion.
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
  /// `n` events were acknowledged.
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

/// The newest events of a device, numbered from 1 on. Those of paths, which may come in floods, do
/// not displace others: each of the two sorts has `most`. One thread at a time.
class RecentEvents {
 public:
  explicit RecentEvents(std::size_t most) : most_(most) {}

  /// Keeps an event with field `event`, and returns it with its number.
  const nlohmann::json& add(nlohmann::json event) {
    event["number"] = next_++;
    auto& kept = kept_[event["event"].get_ref<const std::string&>().starts_with("path_") ? 1 : 0];
    if (kept.size() == most_) kept.pop_front();
    return kept.emplace_back(std::move(event));
  }
  /// Those that are kept with greater numbers, in order.
  [[nodiscard]] nlohmann::json since(std::uint64_t number) const {
    const auto number_of = [](const nlohmann::json& event) {
      return event["number"].get<std::uint64_t>();
    };
    std::vector<const nlohmann::json*> found;
    for (const auto& kept : kept_)
      for (const nlohmann::json& event : kept)
        if (number_of(event) > number) found.push_back(&event);
    std::sort(found.begin(), found.end(),
              [&](const auto* a, const auto* b) { return number_of(*a) < number_of(*b); });
    nlohmann::json events = nlohmann::json::array();
    for (const nlohmann::json* event : found) events.push_back(*event);
    return events;
  }
  /// The number of the newest one; 0: there has been none.
  [[nodiscard]] std::uint64_t newest() const noexcept { return next_ - 1; }

 private:
  const std::size_t most_;
  std::uint64_t next_ = 1;
  std::array<std::deque<nlohmann::json>, 2> kept_;  ///< those of paths are the second
};

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
