// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/exchange/connection_info.hpp"

/// Set-up of a connection between two programs: the data that a queue pair needs of its peer
/// (ConnectionInfo, as bytes for any transport), and a small exchange over TCP for programs that
/// have no other.
namespace mrc::inline v0_1::detail {

/// TCP sockets for the exchange of connection data: non-blocking, waits that end at a deadline or
/// when a flag is set, errors that name host, port, cause and remedy. Set-up only. Socket headers
/// are included by exchange.inl only.

/// A TCP socket, closed with its owner.
using Socket = UniqueFd;

class TcpWait;  // deadline and cancel flag (exchange.inl)

/// Waits until something can be read, or the socket is in error. Throws when time is over; `what`
/// is what is waited for, in the message.
void tcp_wait_readable(const Socket& socket, const TcpWait& wait, const std::string& what);

/// Connects; tries again while the port refuses.
[[nodiscard]] Socket tcp_connect(const std::string& host, std::uint16_t port, const TcpWait& wait);

/// Without an address: an IPv6 socket that takes IPv4 too, or IPv4 where there is no IPv6.
[[nodiscard]] Socket tcp_listen(std::uint16_t port, const std::string& host);

/// The port that a listener got.
[[nodiscard]] std::uint16_t tcp_local_port(const Socket& socket);

/// The next connection, or an invalid socket when there is none yet.
[[nodiscard]] Socket tcp_accept(const Socket& listener, std::string& peer);

/// Sends all of it.
void tcp_send(const Socket& socket, Bytes bytes, const TcpWait& wait, const std::string& peer);

/// Nothing more will be sent: the peer reads the end of the connection.
void tcp_end_sending(const Socket& socket) noexcept;

/// Reads what is there into `room` (not empty): 0 when nothing is there yet. Throws at the end of
/// the connection.
[[nodiscard]] std::size_t tcp_read(const Socket& socket, MutableBytes room,
                                   const std::string& peer);

/// True when the next read would find the end of the connection or an error.
[[nodiscard]] bool tcp_closed(const Socket& socket) noexcept;

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1 {

/// Messages over TCP, for two programs that have no other way to exchange ConnectionInfo and to
/// agree on parameters. Not for data. Each wait ends within 100 ms of *cancel becoming true, with
/// an mrc::Error of code std::errc::operation_canceled: a SIGINT handler that sets a
/// std::atomic<bool> stops a program cleanly. Other signals do not interrupt a wait.

/// "Without a limit", as a timeout.
inline constexpr Duration kForever = Duration::max();

/// A connection that carries messages of up to 16 MiB (4-byte big-endian length, then the bytes).
/// Move-only; one thread at a time. Errors are mrc::Error naming the peer and the cause:
/// Errc::timed_out, Errc::too_long and Errc::bad_message (a length over the limit, sent or
/// received), Errc::invalid_argument (no such host), operation_canceled, or the errno of the
/// socket. After an error, only close() and the destructor may be called, except after a receive
/// that timed out.
class MRC_API TcpChannel {
 public:
  /// Longest message.
  static constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;
  /// Timeout of all calls that are given none.
  static constexpr Duration kDefaultTimeout = std::chrono::seconds(30);

  TcpChannel() = default;

  /// Connects. Tries again while the port refuses, until the timeout, so that either side may start
  /// first. `host` is a name or an address. Looking up a name can't be cancelled.
  [[nodiscard]] static TcpChannel connect(const std::string& host, std::uint16_t port,
                                          Duration timeout = kDefaultTimeout,
                                          const std::atomic<bool>* cancel = nullptr);

  /// Sends one message. Blocks while the peer does not read, up to the timeout.
  void send(Bytes message, Duration timeout = kDefaultTimeout);
  /// send() of the bytes of a text.
  void send_text(std::string_view text, Duration timeout = kDefaultTimeout);

  /// Waits for one message. A message that has arrived in part at the timeout is kept for the next
  /// call.
  [[nodiscard]] std::vector<std::uint8_t> receive(Duration timeout = kDefaultTimeout);
  /// receive() of a text.
  [[nodiscard]] std::string receive_text(Duration timeout = kDefaultTimeout);

  /// A message if one is there in full, nothing otherwise; never waits.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> try_receive();

  /// Refuses longer messages from the peer: for servers, whose clients may be anybody. At most
  /// kMaxMessageBytes, the default.
  void limit_messages(std::size_t bytes) noexcept { limit_ = std::min(bytes, kMaxMessageBytes); }

  /// True when the peer has closed or lost the connection and all that it sent has been received.
  [[nodiscard]] bool peer_closed() const noexcept;

  /// To wait for readability together with other things; -1 when there is no connection.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// The peer, for messages.
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  /// Closes the connection; nothing happens if there is none.
  void close() noexcept { socket_ = {}; }

 private:
  friend class TcpListener;
  static constexpr std::size_t kHead = 4;
  static constexpr std::size_t kChunk = std::size_t{16} << 10;

  TcpChannel(detail::Socket socket, std::string peer, const std::atomic<bool>* cancel)
      : socket_(std::move(socket)), peer_(std::move(peer)), cancel_(cancel) {}

  /// Bytes of the frame being received: those of the length field until that has arrived. Throws
  /// when the length is over the limit.
  [[nodiscard]] std::size_t wanted() const;

  detail::Socket socket_;
  std::vector<std::uint8_t> inbox_;  // of the frame being received
  std::string peer_ = "nobody";
  std::size_t limit_ = kMaxMessageBytes;
  const std::atomic<bool>* cancel_ = nullptr;
};

/// Waits for connections on a TCP port. Move-only; one thread at a time. Errors as for TcpChannel.
class MRC_API TcpListener {
 public:
  /// `port` 0 takes a free one. `bind` is a local address or name; empty: every address, IPv4 and
  /// IPv6.
  explicit TcpListener(std::uint16_t port, const std::string& bind = "",
                       const std::atomic<bool>* cancel = nullptr);

  /// Waits for the next connection.
  [[nodiscard]] TcpChannel accept(Duration timeout = kForever);

  /// The port it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// To wait for connections together with other things.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

 private:
  detail::Socket socket_;
  std::uint16_t port_ = 0;
  const std::atomic<bool>* cancel_ = nullptr;
};

/// Exchanges connection data: sends mine, returns the peer's. Both sides call it. Throws as
/// TcpChannel and decode_connection_info() do.
[[nodiscard]] MRC_API ConnectionInfo exchange(TcpChannel& channel, const ConnectionInfo& mine,
                                              Duration timeout = TcpChannel::kDefaultTimeout);

}  // namespace mrc::inline v0_1
