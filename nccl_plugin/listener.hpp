// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "nccl_plugin/context.hpp"
#include "nccl_plugin/endpoint.hpp"
#include "nccl_plugin/handle.hpp"

namespace mrc_nccl {

class Receiver;

/// Waits for senders on a TCP port of its own. Those that know the cookie of its handle get a queue
/// pair each; everybody else is sent away. One thread at a time; nothing waits.
class Listener {
 public:
  /// Throws mrc::Error.
  Listener(std::shared_ptr<Nic> nic, std::shared_ptr<Context> context);

  /// For the one who connects.
  [[nodiscard]] Handle handle() const;
  /// The next connection, or null if there is none yet. Throws Failure when a peer that knew the
  /// cookie ends during set-up, or can't be connected to.
  [[nodiscard]] std::unique_ptr<Receiver> accept();

 private:
  // Someone who has connected, on the way to a connection.
  struct Guest {
    Channel channel;
    mrc::Time until;                       // it has to say hello
    std::unique_ptr<Endpoint> endpoint{};  // after its hello
    bool ready = false;
  };

  void let_in();
  /// False when the guest has to go.
  bool attend(Guest& guest);
  void answer(Guest& guest, const Greeting& greeting);

  const std::shared_ptr<Nic> nic_;
  const std::shared_ptr<Context> context_;
  std::uint16_t port_ = 0;
  const Socket socket_;
  const std::uint64_t cookie_;
  std::list<Guest> guests_;
};

}  // namespace mrc_nccl
