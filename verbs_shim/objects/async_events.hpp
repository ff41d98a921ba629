// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "mrc/core/unique_fd.hpp"
#include "verbs_shim/abi.hpp"

namespace mrc_verbs {

/// A descriptor that is readable while something waits: an eventfd of its own, or any of the
/// descriptors watched besides. Programs poll it and may set O_NONBLOCK on it, but do not read it.
/// Throws mrc::Error when it can't be opened. Any thread.
class Doorbell {
 public:
  /// `watched`: another descriptor that makes this one readable.
  explicit Doorbell(int watched);
  [[nodiscard]] int fd() const noexcept { return all_.fd(); }
  /// Watches another descriptor, or no longer. Throws mrc::Error.
  void watch(int other) const;
  void forget(int other) const noexcept;
  /// Makes it readable, or no longer readable by itself.
  void ring() const noexcept;
  void clear() const noexcept;
  /// Sleeps until it is readable or `milliseconds` are over; negative: without limit. False at once
  /// if the program has set O_NONBLOCK (EAGAIN), after a signal, or after end_waits() (EINVAL).
  /// A cancellation point, which a cancelled thread leaves by the system's unwinder: whatever calls
  /// it must have neither destructors nor handlers to run, since these are compiled for this
  /// library's own.
  [[nodiscard]] bool wait(int milliseconds) const;
  /// Nobody sleeps any more: what it is a part of goes.
  void end_waits() noexcept;

 private:
  mrc::UniqueFd own_, all_;
  std::atomic<bool> ended_{false};
};

/// The asynchronous events of a context, in order. Any thread.
class AsyncEvents {
 public:
  /// `device`: descriptor of the device's events, from which these are made.
  explicit AsyncEvents(int device) : bell_(device) {}
  [[nodiscard]] const Doorbell& bell() const noexcept { return bell_; }
  void end_waits() noexcept { bell_.end_waits(); }

  void push(const ibv_async_event& event);
  /// Takes the oldest. False if there is none.
  bool take(ibv_async_event& event);
  /// The object goes: events of it that nobody has taken vanish.
  void forget(const void* object);

 private:
  Doorbell bell_;
  std::mutex mutex_;
  std::deque<ibv_async_event> events_;
};

/// The object that an event is about, or null if it is about the port.
[[nodiscard]] const void* object_of(const ibv_async_event& event) noexcept;

}  // namespace mrc_verbs
