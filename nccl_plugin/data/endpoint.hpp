// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "mrc/device.hpp"
#include "nccl_plugin/data/clear_to_send.hpp"
#include "nccl_plugin/data/copy_ring.hpp"
#include "nccl_plugin/setup/channel.hpp"
#include "nccl_plugin/setup/greeting.hpp"
#include "nccl_plugin/setup/nic.hpp"

namespace mrc_nccl {

/// Which side of a connection: data goes one way, from sender to receiver.
enum class Role : std::uint8_t { sender, receiver };

/// One side of a connection, without its protocol: a queue pair with its completion queue, memory
/// that the peer writes to, and the channel to the peer. A queue pair of its own, with all paths of
/// the NIC, for each connection. One thread at a time.
class Endpoint {
 public:
  /// Throws mrc::Error.
  Endpoint(std::shared_ptr<Nic> nic, Role role);
  /// The channel ends first, and says so: the peer knows why it gets no answers any more.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] Greeting greeting() const;
  /// Connects the queue pair, and posts the receives of a receiver. Says in the log which planes do
  /// not fit. Throws mrc::Error, and Failure if none fits.
  void connect(const Greeting& peer, const Log& log);
  /// QueuePair::post_send().
  mrc::Errc post(const mrc::SendRequest& request) noexcept;
  /// The peer has acknowledged all that was posted.
  [[nodiscard]] bool delivered() const noexcept { return qp.stats().writes_completed == posted_; }
  /// The peer as it is named in messages.
  [[nodiscard]] std::string peer_text() const;

  /// Sends in flight of a sender.
  static constexpr unsigned kMostSends = kSlots * kMaxGroup;
  /// Writes to a receiver that it need not have seen: of its buffers, and eager messages.
  static constexpr unsigned kMostWrites = kMostSends + kEagerSlots;

  const std::shared_ptr<Nic> nic;
  const Role role;
  const std::unique_ptr<Mailbox> mailbox;
  mrc::MemoryRegion mailbox_region;
  /// Of a sender, made when it needs them; outlives the queue pair.
  std::optional<CopyRing> copies;
  mrc::CompletionQueue cq;
  mrc::QueuePair qp;
  Channel channel;
  mrc::RemoteAddress peer_mailbox;
  bool peer_takes_eager = false;  ///< messages that it has not announced a receive for
  std::string peer_name;
  std::size_t told_at_once = 0;   ///< most bytes of a write of ClearToSend records; once connected
  std::uint64_t peer_number = 0;  ///< see Peers; once connected
  /// Something that NCCL counts as done may have to be sent again. Of one whose connection is over.
  bool owes_delivery = false;

 private:
  [[nodiscard]] PlaneMatch match(const Greeting& peer, bool hosts) const;

  std::uint64_t posted_ = 0;  // requests
};

}  // namespace mrc_nccl
