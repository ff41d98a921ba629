// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/plane/verbs/verbs_arrivals.hpp"
#include "mrc/plane/verbs/verbs_queues.hpp"
#include "mrc/wire/burst.hpp"

/// Unreliable connections (UC) of a verbs port: RDMA writes with immediate, of one packet each,
/// whose payload the device of the receiver places. One queue pair per peer, path and direction.
namespace mrc::inline v0_1::port {

/// A write has been placed, or a marker has come.
struct VerbsUcArrival {
  std::uint32_t qpn = 0;     ///< of the receiving queue pair
  std::uint32_t seq = 0;     ///< the immediate
  std::uint32_t length = 0;  ///< bytes placed; 0: a marker
};

/// The receiving side of all peers: a shared queue of receive requests without memory, and a
/// completion queue with room for all of them.
///
/// Set-up calls (constructor, make_receiver()) throw mrc::Error; the rest is data path. One thread
/// at a time, except make_receiver(), which any thread may call beside it.
class VerbsUcReceive {
 public:
  /// On the device of `queues`, which must outlive it.
  explicit VerbsUcReceive(const VerbsQueues& queues);

  /// A queue pair that receives from that address: ready to, when it is returned.
  [[nodiscard]] VerbsHandle<ibv_qp> make_receiver(ibv_ah_attr address) const;

  /// Takes up to `out.size()` arrivals in. Returns how many. Posts their requests again.
  [[nodiscard]] std::size_t take_arrived(std::span<VerbsUcArrival> out) noexcept;
  /// Arrivals from now on make VerbsQueues::event_fd() readable. False: there are some already.
  [[nodiscard]] bool arm() noexcept;
  /// The shared queue has failed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  void refill(std::size_t count) noexcept;

  const VerbsQueues& queues_;
  VerbsHandle<ibv_cq> arrived_;
  VerbsHandle<ibv_srq> requests_;
  VerbsArrivals arrivals_;  ///< of arrived_
  bool failed_ = false;
};

/// The sending side to one peer: a queue pair per path, and a completion queue with room for all
/// that they send.
///
/// Set-up calls (constructor, make_sender()) throw mrc::Error; the rest is data path. One thread at
/// a time.
class VerbsUcSend {
 public:
  /// On the device of `queues`, which must outlive it.
  VerbsUcSend(const VerbsQueues& queues, std::uint16_t paths);
  VerbsUcSend(const VerbsUcSend&) = delete;
  VerbsUcSend& operator=(const VerbsUcSend&) = delete;

  /// A new queue pair that sends to the peer's queue pair `qpn` at that address. Any thread.
  [[nodiscard]] VerbsHandle<ibv_qp> make_sender(ibv_ah_attr address, std::uint32_t qpn) const;
  /// From now on, a path uses that queue pair (null: none), and the former one is returned. What it
  /// still had to send counts as sent: its copies are appended. The caller destroys it before these
  /// are released.
  [[nodiscard]] VerbsHandle<ibv_qp> exchange(std::uint16_t path, VerbsHandle<ibv_qp> qp,
                                             std::vector<wire::CopyId>& copies) noexcept;

  /// All that it still had to send counts as sent: its copies are appended. The object is destroyed
  /// before these are released.
  void give_up(std::vector<wire::CopyId>& copies) noexcept;

  /// Whether a path has a queue pair.
  [[nodiscard]] bool ready(std::uint16_t path) const noexcept { return lanes_[path].qp != nullptr; }
  /// Writes that a path can take now, those that wait for post() included.
  [[nodiscard]] std::uint32_t room(std::uint16_t path) const noexcept {
    const Lane& lane = lanes_[path];
    return kDepth - (lane.posted + lane.waiting - lane.done);
  }
  /// Appends a write to what post() will send: `payload` to `remote` with the peer's `rkey`. Needs
  /// ready() and room().
  void add(std::uint16_t path, std::span<const ibv_sge> payload, std::uint64_t remote,
           std::uint32_t rkey, std::uint32_t seq, wire::CopyId copy) noexcept;
  /// Sends what was added, with one doorbell. False: the device failed.
  bool post(std::uint16_t path) noexcept;
  /// Takes send completions in, and appends the copies that the device no longer reads.
  void take_sent(std::vector<wire::CopyId>& released) noexcept;
  /// Send completions from now on make VerbsQueues::event_fd() readable; call take_sent() after it.
  void arm() noexcept { failed_ = ibv_req_notify_cq(sent_.get(), 0) != 0 || failed_; }
  /// Writes that the device has not reported as sent.
  [[nodiscard]] bool busy() const noexcept { return outstanding_ > 0; }
  /// A queue pair has failed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

  static constexpr std::uint32_t kDepth = 64;    ///< writes of one path in the device
  static constexpr std::size_t kMaxPieces = 14;  ///< SGEs of a write

 private:
  struct Lane {
    VerbsHandle<ibv_qp> qp;
    std::uint32_t posted = 0;
    std::uint32_t done = 0;
    std::uint32_t waiting = 0;  ///< added since the last post()
    std::uint32_t life = 0;     ///< counts queue pairs: completions of former ones are ignored
    std::array<wire::CopyId, kDepth> copies{};
    std::array<ibv_send_wr, kDepth> requests{};
    std::array<std::array<ibv_sge, kMaxPieces>, kDepth> sges{};
  };

  void release(Lane& lane, std::uint32_t up_to, std::vector<wire::CopyId>& released) noexcept;

  const VerbsQueues& queues_;
  VerbsHandle<ibv_cq> sent_;
  std::vector<Lane> lanes_;
  std::uint32_t outstanding_ = 0;
  bool failed_ = false;
};

/// What a verbs port has open on its device.
struct VerbsParts {
  std::unique_ptr<VerbsQueues> queues;  ///< null: nothing is open
  std::unique_ptr<VerbsUcReceive> uc;   ///< null without placement
};

}  // namespace mrc::inline v0_1::port
