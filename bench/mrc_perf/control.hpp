// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "common/interrupt.hpp"
#include "mrc/core/types.hpp"
#include "mrc/exchange.hpp"

namespace mrc::perf {

using tools::catch_signals;
using tools::g_interrupted;

/// The run can't continue; what() says why. Results so far are still reported.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// The control connection closed without a message: the peer was killed, or its host is down.
class PeerGone : public Failure {
 public:
  using Failure::Failure;
};

/// The user interrupted the program before the run started.
class Interrupted : public Failure {
 public:
  Interrupted() : Failure("interrupted") {}
};

/// A message as `peer` has sent it: an object with an "op". Any bytes are safe. Throws Failure,
/// also when the peer reports that it aborted.
[[nodiscard]] nlohmann::json parse_message(Bytes bytes, const std::string& peer);

/// The TCP connection beside the queue pairs: JSON objects with an "op" that gives their type. One
/// thread.
class Control {
 public:
  Control(TcpChannel channel, std::string peer)
      : channel_(std::move(channel)), peer_(std::move(peer)) {}

  /// Name of the other side, for messages.
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  /// The channel itself, for mrc::exchange().
  [[nodiscard]] TcpChannel& channel() noexcept { return channel_; }

  /// Throws PeerGone.
  void send(const nlohmann::json& message);
  /// The next message if one has arrived; does not wait. Throws PeerGone, and Failure when the peer
  /// reports that it aborted.
  [[nodiscard]] std::optional<nlohmann::json> poll();
  /// poll() returns this one next.
  void put_back(nlohmann::json message) { next_ = std::move(message); }
  /// Waits for a message with this op, calling `idle` repeatedly meanwhile. Throws Failure on
  /// timeout, and as poll() does.
  nlohmann::json wait(const std::string& op, Duration timeout, const std::function<void()>& idle);
  /// The same, sleeping meanwhile. Also throws Interrupted.
  nlohmann::json wait(const std::string& op, Duration timeout);
  /// Returns when a message arrives, or after the timeout.
  void sleep(std::chrono::milliseconds most) const;
  /// Tells the peer why this side aborts. Never throws.
  void abort(const std::string& why) noexcept;

 private:
  TcpChannel channel_;
  std::string peer_;
  std::optional<nlohmann::json> next_{};
};

}  // namespace mrc::perf
