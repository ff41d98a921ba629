// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "mrc/api/device_stats.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/unique_fd.hpp"

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

}  // namespace mrc::inline v0_1::detail
