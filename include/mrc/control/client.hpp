// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "mrc/control/unix_socket.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::control {

/// A connection to a control socket: lines go there, and come back. What is in them is the caller's
/// affair; whoever listens may be hostile, so lines are bounded. One thread.
class Client {
 public:
  /// Bytes of a line that is taken.
  static constexpr std::size_t kLongestLine = 4 << 20;

  /// Connects. Throws mrc::Error; std::errc::connection_refused: nobody listens any more.
  explicit Client(const std::string& path) : socket_(connect_unix(path)) {}

  /// Who listens. Throws mrc::Error.
  [[nodiscard]] PeerCredentials server() const { return credentials_of(socket_); }
  /// Readable when there may be a line.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// Sends a line, without its end. Throws mrc::Error, also when it takes too long.
  void send(std::string_view line, Duration patience);
  /// The next line, without its end; nothing if none has come after that time. Throws mrc::Error if
  /// the connection has ended, or the line is longer than `longest` bytes.
  [[nodiscard]] std::optional<std::string> receive(Duration patience,
                                                   std::size_t longest = kLongestLine);
  /// Ends the connection: calls that wait end at once. Any thread.
  void hang_up() noexcept;

 private:
  UniqueFd socket_;
  std::string in_;
  std::size_t searched_ = 0;  ///< bytes of `in_` without the end of a line
};

}  // namespace mrc::inline v0_1::control
