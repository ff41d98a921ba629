// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1 {

class Device;
namespace detail {
class DeviceCore;
class Lane;
}  // namespace detail

/// What a shared receive queue is made of.
struct SrqOptions {
  std::uint32_t depth = 128;  ///< receive requests, 1 .. 32,768
  std::uint32_t sges = 1;     ///< SGEs per request, 1 .. 64
  std::optional<PdId> pd{};   ///< of the memory of its requests; default: the device's own
  /// Default: the lane with the fewest queue pairs. Errc::invalid_argument if there is no such
  /// lane.
  std::optional<unsigned> lane{};
};

/// What is known of a shared receive queue.
struct SrqInfo {
  PdId pd{};                 ///< protection domain
  std::uint32_t depth = 0;   ///< most requests
  std::uint32_t sges = 0;    ///< most SGEs per request
  std::uint32_t posted = 0;  ///< requests that no queue pair has taken yet
  std::uint32_t limit = 0;   ///< an event is raised when fewer are left; 0: none
  std::uint32_t users = 0;   ///< queue pairs
};

/// A shared receive queue: receive requests for several queue pairs (QpOptions::srq,
/// DatagramOptions::srq). Each takes the oldest one when a message that needs it begins to arrive;
/// the completion goes to the queue pair's own completion queue. It belongs to one lane for life,
/// and so do its queue pairs.
///
/// Move-only. Methods may be called from any thread, but for those that end the handle: see Device.
class MRC_API SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;
  /// Takes the queue over; `other` is empty afterwards.
  SharedReceiveQueue(SharedReceiveQueue&& other) noexcept { swap(other); }
  /// Takes `other` over; the former queue is destroyed.
  SharedReceiveQueue& operator=(SharedReceiveQueue&& other) noexcept;
  ~SharedReceiveQueue();

  /// Names the queue in events.
  [[nodiscard]] SrqId id() const noexcept;
  /// Which lane of the device it belongs to: 0 .. Device::lane_count() - 1.
  [[nodiscard]] unsigned lane() const noexcept;

  /// Posts a receive request for whichever of the queue pairs needs one first. Errc::queue_full if
  /// SrqOptions::depth of them wait, as other errors QueuePair::post_receive(). Never blocks, never
  /// throws.
  Errc post_receive(const ReceiveRequest& request) noexcept;
  /// Posts several. Stops at the first that fails; `posted` counts the others.
  Errc post_receives(std::span<const ReceiveRequest> requests, std::size_t& posted) noexcept;
  /// As soon as fewer than `limit` receives are left, the device raises
  /// DeviceEvent::Kind::srq_limit, once for each call; 0: never. At once if fewer are left now.
  /// Errc::invalid_argument if it is larger than the depth.
  Errc set_limit(std::uint32_t limit) noexcept;
  /// What is known of it. Throws mrc::Error if it was closed.
  [[nodiscard]] SrqInfo query() const;

  /// Destroys the queue; posted requests vanish without completions. Errc::in_use while a queue
  /// pair uses it (nothing happens then).
  Errc close() noexcept;

 private:
  friend class Device;
  SharedReceiveQueue(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane, SrqId srq);
  void swap(SharedReceiveQueue& other) noexcept;

  std::shared_ptr<detail::DeviceCore> core_;
  detail::Lane* lane_ = nullptr;
  SrqId srq_{};  ///< number in the lane's engine
};

}  // namespace mrc::inline v0_1
