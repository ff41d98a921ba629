// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1 {

class CompletionQueue;
class Device;
class SharedReceiveQueue;
namespace detail {
class DeviceCore;
class Lane;
}  // namespace detail

/// What a datagram queue pair is made of.
struct DatagramOptions {
  const CompletionQueue* send_cq = nullptr;     ///< required
  const CompletionQueue* receive_cq = nullptr;  ///< default: send_cq
  QpCapacity capacity{};                        ///< sizes of its queues
  std::optional<PdId> pd{};                     ///< default: the device's own
  bool signal_all = false;                      ///< every datagram completes, flags or not
  /// Where its receives come from; default: a receive queue of its own, of capacity.receive. The
  /// queue pair goes to the lane of this queue. Its receives need kGrhBytes more for datagrams.
  const SharedReceiveQueue* srq = nullptr;
  /// Default: the lane of `srq`, or else the one with the fewest queue pairs.
  /// Errc::invalid_argument if there is no such lane, or `srq` is in another one.
  std::optional<unsigned> lane{};
  bool as_verbs = false;  ///< as QpOptions::as_verbs
};

/// A queue pair for unreliable datagrams, in the format of RoCEv2 and beside MRC (UD). Each message
/// is one packet to any queue pair of this kind, whose device's address, number and Q_Key are given
/// with it: what is lost is lost, what finds no receive is dropped, and order is not promised.
///
/// A receive needs kGrhBytes bytes more than the message, which come first and say where it came
/// from. One that is too short completes with loc_len_err and moves the queue pair to ERR. Anybody
/// who can send packets to the device, and knows or guesses QPN and Q_Key, can fill receives;
/// docs/security.md.
///
/// Move-only. Methods may be called from any thread, but for those that end the handle: see Device.
class MRC_API DatagramQueuePair {
 public:
  DatagramQueuePair() = default;
  /// Takes the queue pair over; `other` is empty afterwards.
  DatagramQueuePair(DatagramQueuePair&& other) noexcept { swap(other); }
  /// Takes `other` over; the former queue pair is destroyed.
  DatagramQueuePair& operator=(DatagramQueuePair&& other) noexcept;
  ~DatagramQueuePair();

  /// Queue pair number, 24 bits; the top 8 are the slot of its lane.
  [[nodiscard]] Qpn qpn() const noexcept { return qpn_; }
  /// Which lane of the device it belongs to, for life.
  [[nodiscard]] unsigned lane() const noexcept;
  /// Current state; calls that it does not allow return Errc::invalid_state.
  [[nodiscard]] QpState state() const noexcept;
  /// One step to another state. Errc::invalid_state if the present one does not allow it;
  /// Errc::invalid_argument if an attribute belongs to another step. Never waits.
  Errc modify(const DatagramChange& change) noexcept;
  /// From RESET through INIT and RTR to RTS, with that Q_Key. Errc::invalid_state if it is not in
  /// RESET.
  Errc start(std::uint32_t q_key) noexcept;
  /// What is known of it. Throws mrc::Error if it was closed.
  [[nodiscard]] DatagramInfo query() const;

  /// Finds the way to a device, waits up to `patience` until packets to it are not lost for want of
  /// a next hop, and throws mrc::Error if there is no way, or the next hop does not answer.
  /// post_send() looks for the way too, and does not wait. `remote` is a queue pair there.
  void prepare(const AddressHandle& to, Qpn remote,
               Duration patience = std::chrono::milliseconds(100)) const;

  /// Posts one datagram and starts sending it. Never blocks, never throws. Errc::unreachable if no
  /// plane leads to its address, Errc::too_long above DatagramInfo::mtu. It completes when its
  /// memory may be reused; delivery is not implied.
  Errc post_send(const DatagramRequest& request) noexcept;
  /// Posts several with one doorbell. Stops at the first that fails; `posted` counts the others.
  Errc post_sends(std::span<const DatagramRequest> requests, std::size_t& posted) noexcept;
  /// Posts a receive request. Errc::unsupported if its receives come from a shared queue.
  Errc post_receive(const ReceiveRequest& request) noexcept;

  /// As QueuePair::complete_send().
  Errc complete_send(std::uint64_t wr_id, WcStatus status) noexcept;

  /// Destroys the queue pair; posted requests vanish without completions.
  Errc close() noexcept;

 private:
  friend class Device;
  DatagramQueuePair(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane, Qpn qpn);
  void swap(DatagramQueuePair& other) noexcept;

  std::shared_ptr<detail::DeviceCore> core_;
  detail::Lane* lane_ = nullptr;
  Qpn qpn_{};
};

}  // namespace mrc::inline v0_1
