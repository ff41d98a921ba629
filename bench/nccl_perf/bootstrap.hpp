// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/unique_fd.hpp"

/// How ranks exchange what they need to connect, and tell their results: each has a socket to the
/// launcher, over which whole messages travel.
namespace mrc::nccl_perf {

/// First byte of a message.
enum class Message : char {
  exchange = 'x',  ///< to the launcher: for all; from it: the ranks' texts, one after the other
  result = 'r',    ///< to the launcher
  checked = 'c',   ///< to the launcher, at the end: how many bytes were checked, all of them right
  gone = 'g',      ///< from it, at any time: the rank that is no more
};

/// A pair of connected ends; messages may have up to 1 MiB.
struct SocketPair {
  UniqueFd launcher, rank;
};
[[nodiscard]] SocketPair make_socket_pair();

/// Sends a message. False if the other end is gone.
bool send_message(int socket, Message kind, const std::string& text);
struct Received {
  Message kind;
  std::string text;
};
/// The next message; none if the other end is gone. `wait` false: also if there is none yet.
[[nodiscard]] std::optional<Received> receive_message(int socket, bool wait);

/// The ranks' texts in one, and back.
[[nodiscard]] std::string join(const std::vector<std::string>& texts);
[[nodiscard]] std::vector<std::string> divide(const std::string& joined);

/// A rank's end.
class Bootstrap {
 public:
  explicit Bootstrap(UniqueFd socket) : socket_(std::move(socket)) {}

  /// Returns what each rank gave. Throws Failure if a rank ends before it gave something, and
  /// Interrupted after a signal.
  std::vector<std::string> exchange(const std::string& own);
  /// Waits for all ranks.
  void barrier() { (void)exchange({}); }
  /// Throws Failure if a rank has failed, Interrupted after a signal: what an application learns
  /// that calls ncclCommAbort().
  void look() const;
  /// Tells the launcher something.
  void tell(Message kind, const std::string& text) { send_message(socket_.fd(), kind, text); }

 private:
  UniqueFd socket_;
};

}  // namespace mrc::nccl_perf
