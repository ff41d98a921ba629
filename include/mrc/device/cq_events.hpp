// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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
  unsigned users = 0;  ///< completion queues
};

/// Where the events of a device's completion queues go: to a descriptor (eventfd) of the queue, or
/// to a channel that queues share. Owns both: those of queues that outlive their handle are closed
/// with the device. Thread contract: under the device's lock.
class CqEvents {
 public:
  /// A new queue with its descriptor, and its channel or null.
  void add(CqId cq, UniqueFd fd, std::shared_ptr<ChannelEvents> channel) {
    if (index(cq) >= queues_.size()) queues_.resize(index(cq) + 1);
    if (channel) ++channel->users;
    queues_[index(cq)] = {std::move(fd), std::move(channel), 0, false, false};
  }
  void remove(CqId cq) noexcept {
    Queue& queue = queues_[index(cq)];
    if (queue.channel) {
      --queue.channel->users;
      queue.channel->events.remove_if([cq](CqId other) { return other == cq; });
    }
    queue = {};
  }
  /// The application has armed the queue: the next event is for it.
  void note_armed(CqId cq) noexcept { queues_[index(cq)].armed = true; }
  /// Raises an event: of the channel, if the application has armed the queue and it has one, and of
  /// the queue's own descriptor, on which wait() sleeps.
  void signal(CqId cq) noexcept {
    Queue& queue = queues_[index(cq)];
    const bool armed = std::exchange(queue.armed, false);
    const std::uint64_t one = 1;
    if (armed && queue.channel && !std::exchange(queue.pending, true))
      queue.channel->events.push(cq);
    if (queue.fd.open()) (void)!::write(queue.fd.fd(), &one, sizeof one);
  }
  /// An event was given to the application: it must acknowledge it.
  void give(CqId cq) noexcept {
    ++queues_[index(cq)].unacknowledged;
    queues_[index(cq)].pending = false;
  }
  /// `n` events were acknowledged.
  void acknowledge(CqId cq, unsigned n) noexcept {
    Queue& queue = queues_[index(cq)];
    queue.unacknowledged -= n < queue.unacknowledged ? n : queue.unacknowledged;
  }
  /// Events given and not acknowledged.
  [[nodiscard]] unsigned unacknowledged(CqId cq) const noexcept {
    return queues_[index(cq)].unacknowledged;
  }

 private:
  struct Queue {
    UniqueFd fd;
    std::shared_ptr<ChannelEvents> channel;
    unsigned unacknowledged = 0;
    bool armed = false;    ///< by the application
    bool pending = false;  ///< an event of it is in the channel: there is one at a time
  };
  [[nodiscard]] static std::size_t index(CqId cq) noexcept { return static_cast<std::size_t>(cq); }

  std::vector<Queue> queues_;
};

}  // namespace mrc::inline v0_1::detail
