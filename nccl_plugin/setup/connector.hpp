// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/context.hpp"
#include "nccl_plugin/data/endpoint.hpp"
#include "nccl_plugin/setup/handle.hpp"

namespace mrc_nccl {

class Sender;

/// Connects to a listener: tries all addresses of its handle side by side, and takes the first that
/// answers. A listener that is flooded may close a connection before it has read from it: then it
/// is tried again. One thread at a time; nothing waits.
class Connector {
 public:
  /// Throws mrc::Error.
  Connector(std::shared_ptr<Nic> nic, std::shared_ptr<Context> context, const Handle& handle);

  /// The connection, or null if it is not there yet. Throws Failure: remote_error if nobody answers
  /// or the listener's process is gone, otherwise what the listener has refused.
  [[nodiscard]] std::unique_ptr<Sender> proceed();
  /// The handle that it was made for.
  [[nodiscard]] const Handle& handle() const noexcept { return handle_; }
  /// When it was asked last: NCCL gives attempts up by asking no more.
  [[nodiscard]] mrc::Time asked() const noexcept { return asked_; }

 private:
  struct Try {
    mrc::port::IpAddress ip;
    Socket socket;
  };

  void begin();
  void look();
  void wait_on();
  void greet(Try& connected);
  [[nodiscard]] std::string where() const;

  const std::shared_ptr<Nic> nic_;
  const std::shared_ptr<Context> context_;
  const Handle handle_;
  std::atomic<mrc::Time> asked_;  // read by threads with attempts of their own
  mrc::Time began_;
  mrc::Time refused_;       // first, while nobody has let us in since
  mrc::Time greeted_;       // first
  std::string last_error_;  // of the addresses, in words
  std::vector<Try> tries_;
  std::unique_ptr<Endpoint> endpoint_;  // once an address has answered
};

}  // namespace mrc_nccl
