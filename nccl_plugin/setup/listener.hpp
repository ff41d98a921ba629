// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "nccl_plugin/context.hpp"
#include "nccl_plugin/data/endpoint.hpp"
#include "nccl_plugin/setup/guest_filter.hpp"
#include "nccl_plugin/setup/handle.hpp"
#include "nccl_plugin/setup/strangers.hpp"

namespace mrc_nccl {

class Receiver;

/// Waits for senders on a TCP port of its own. Those that know the secret of its handle get a queue
/// pair each; everybody else is sent away, at the latest when others need the place. One thread at
/// a time; nothing waits.
class Listener {
 public:
  /// Throws mrc::Error.
  Listener(std::shared_ptr<Nic> nic, std::shared_ptr<Context> context);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// For the one who connects.
  [[nodiscard]] Handle handle() const;
  /// The next connection, or null if there is none yet. Throws Failure when a peer that knew the
  /// secret ends during set-up, or can't be connected to.
  [[nodiscard]] std::unique_ptr<Receiver> accept();

 private:
  // Someone who has connected and has to say hello.
  struct Stranger {
    Channel channel;
    mrc::Time until;
  };
  // Those who know the secret. Their endpoints are connected.
  using Guests = std::list<std::unique_ptr<Endpoint>>;

  void let_in();
  void on_accept_error(int error);
  bool listen_to(Stranger& stranger);
  void answer(Stranger& stranger, const Greeting& greeting);
  [[nodiscard]] std::unique_ptr<Endpoint> ready_guest();
  void send_away(const std::string& why);
  [[noreturn]] void throw_missing() const;

  const std::shared_ptr<Nic> nic_;
  const std::shared_ptr<Context> context_;
  std::uint16_t port_ = 0;
  const Socket socket_;
  const mrc::SipKey secret_;
  Strangers<Stranger> strangers_;
  Guests guests_;
  std::string missing_;             // the guest whose channel broke last,
  mrc::Time missed_ = mrc::kNever;  // and when, while there is no other
  mrc::Time told_;                  // last, of strangers that were sent away
  unsigned sent_away_ = 0;          // since then
  mrc::Time warned_;                // last, that connections can't be accepted
  GuestFilter filter_;
};

}  // namespace mrc_nccl
