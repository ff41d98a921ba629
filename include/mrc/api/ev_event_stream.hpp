// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "mrc/api/profile_types.hpp"
#include "mrc/core/linkage.hpp"

namespace mrc::inline v0_1 {

class Device;
namespace detail {
class EvEventQueue;
}  // namespace detail

/// A stream of EV events (mrc-1.0 §3.7): paths that became ASSUMED_BAD, or GOOD again, as far as
/// the event masks of their EV profiles ask for it. Queue pairs without EV profile report both.
/// Copies refer to the same stream. Any thread.
class MRC_API EvEventStream {
 public:
  EvEventStream() = default;
  /// Readable while there are events; for poll(), not for reading.
  [[nodiscard]] int fd() const noexcept;
  /// Takes the oldest events, and returns how many. When the stream is full, events are dropped,
  /// and the next one says how many were: EvEvent::drop_count.
  std::size_t poll(std::span<EvEvent> out) noexcept;
  /// Adds an event, of another process's device, say. It is dropped and counted if the stream is
  /// full.
  void push(const EvEvent& event) noexcept;

 private:
  friend class Device;
  explicit EvEventStream(std::shared_ptr<detail::EvEventQueue> events);

  std::shared_ptr<detail::EvEventQueue> events_;
};

}  // namespace mrc::inline v0_1
