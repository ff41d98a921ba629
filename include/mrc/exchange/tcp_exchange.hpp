// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/time.hpp"
#include "mrc/core/types.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/exchange/tcp_socket.hpp"

/// Messages over TCP, for two programs that have no other way to swap ConnectionInfo and agree on
/// what they do. Not for data. Each wait ends within 100 ms of *cancel becoming true, with an
/// mrc::Error of code std::errc::operation_canceled, so that a handler of SIGINT that sets a
/// std::atomic<bool> stops a program cleanly; other signals disturb nothing.
namespace mrc::inline v0_1 {

/// "Without a limit", as a timeout.
inline constexpr Duration kForever = Duration::max();

/// A connection that carries messages of up to 16 MiB (4-byte big-endian length, then the bytes).
/// Move-only; one thread at a time. Errors are mrc::Error naming the peer and the cause:
/// Errc::timed_out, Errc::bad_message (a length over the limit), operation_canceled, or the errno
/// of the socket. After any of them but a receive that timed out, only close and destroy.
class TcpChannel {
 public:
  static constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;
  static constexpr Duration kDefaultTimeout = std::chrono::seconds(30);

  TcpChannel() = default;

  /// Connects, trying again while the port refuses, until the timeout: so the sides may start in
  /// any order. `host` is a name or an address. Looking up a name can't be cancelled.
  [[nodiscard]] static TcpChannel connect(const std::string& host, std::uint16_t port,
                                          Duration timeout = kDefaultTimeout,
                                          const std::atomic<bool>* cancel = nullptr) {
    return {detail::tcp_connect(host, port, {timeout, cancel}),
            "'" + host + "' port " + std::to_string(port), cancel};
  }

  /// Sends one message. Blocks while the peer does not read, up to the timeout.
  void send(Bytes message, Duration timeout = kDefaultTimeout) {
    if (message.size() > kMaxMessageBytes)
      throw Error(Errc::too_long, "message of " + std::to_string(message.size()) + " bytes to " +
                                      peer_ + "; the limit is 16 MiB");
    const detail::TcpWait wait{timeout, cancel_};
    const auto size = static_cast<std::uint32_t>(message.size());
    std::vector<std::uint8_t> frame;
    frame.reserve(kHead + message.size());
    detail::put(frame, size, kHead);
    frame.insert(frame.end(), message.begin(), message.end());
    try {
      detail::tcp_send(socket_, frame, wait, peer_);
    } catch (...) {
      // Part of the frame may be out: nothing sensible can follow it, and the peer should know.
      ::shutdown(socket_.fd(), SHUT_WR);
      throw;
    }
  }
  void send_text(std::string_view text, Duration timeout = kDefaultTimeout) {
    send({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, timeout);
  }

  /// Waits for one message. What has arrived of it when the time is over is kept for the next call.
  [[nodiscard]] std::vector<std::uint8_t> receive(Duration timeout = kDefaultTimeout) {
    const detail::TcpWait wait{timeout, cancel_};
    std::optional<std::vector<std::uint8_t>> message;
    while (!(message = try_receive()))
      detail::tcp_wait(socket_, POLLIN, wait, "a message from " + peer_);
    return std::move(*message);
  }
  [[nodiscard]] std::string receive_text(Duration timeout = kDefaultTimeout) {
    const auto bytes = receive(timeout);
    return {bytes.begin(), bytes.end()};
  }

  /// A message if one is there in full, nothing otherwise; never waits.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> try_receive() {
    // The inbox grows as bytes arrive, never on the word of the length field alone.
    std::array<std::uint8_t, kChunk> chunk;
    while (inbox_.size() < wanted()) {
      const std::size_t room = std::min(wanted() - inbox_.size(), kChunk);
      const auto got = detail::tcp_read(socket_, MutableBytes(chunk).first(room), peer_);
      if (got == 0) return std::nullopt;
      inbox_.insert(inbox_.end(), chunk.data(), chunk.data() + got);
    }
    std::vector<std::uint8_t> message(inbox_.begin() + kHead, inbox_.end());
    inbox_.clear();
    return message;
  }

  /// True when the peer has closed or lost the connection and all that it sent has been received.
  [[nodiscard]] bool peer_closed() const noexcept {
    return inbox_.empty() && detail::tcp_closed(socket_);
  }

  /// To wait for readability together with other things; -1 when there is no connection.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// The peer, for messages.
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  void close() noexcept { socket_ = {}; }

 private:
  friend class TcpListener;
  static constexpr std::size_t kHead = 4;
  static constexpr std::size_t kChunk = std::size_t{16} << 10;

  TcpChannel(detail::Socket socket, std::string peer, const std::atomic<bool>* cancel)
      : socket_(std::move(socket)), peer_(std::move(peer)), cancel_(cancel) {}

  /// Bytes of the frame being received, as far as its length is known. Throws when that is too
  /// much.
  [[nodiscard]] std::size_t wanted() const {
    if (inbox_.size() < kHead) return kHead;
    detail::InfoReader reader(inbox_);
    const std::size_t size = reader.take<std::uint32_t>();
    if (size > kMaxMessageBytes)
      throw Error(Errc::bad_message, "message of " + std::to_string(size) + " bytes from " + peer_ +
                                         "; the limit is 16 MiB: is it a program of this kind?");
    return kHead + size;
  }

  detail::Socket socket_;
  std::vector<std::uint8_t> inbox_;  // of the frame being received
  std::string peer_ = "nobody";
  const std::atomic<bool>* cancel_ = nullptr;
};

/// Waits for connections on a TCP port. Move-only; one thread at a time. Errors as for TcpChannel.
class TcpListener {
 public:
  /// `port` 0 takes a free one. `bind` is a local address or name; empty: every address, IPv4 and
  /// IPv6.
  explicit TcpListener(std::uint16_t port, const std::string& bind = "",
                       const std::atomic<bool>* cancel = nullptr)
      : socket_(detail::tcp_listen(port, bind)),
        port_(detail::tcp_local_port(socket_)),
        cancel_(cancel) {}

  [[nodiscard]] TcpChannel accept(Duration timeout = kForever) {
    const detail::TcpWait wait{timeout, cancel_};
    std::string peer;
    detail::Socket socket;
    while (!(socket = detail::tcp_accept(socket_, peer)).open())
      detail::tcp_wait(socket_, POLLIN, wait, "a connection on port " + std::to_string(port_));
    return {std::move(socket), std::move(peer), cancel_};
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

 private:
  detail::Socket socket_;
  std::uint16_t port_ = 0;
  const std::atomic<bool>* cancel_ = nullptr;
};

/// Swaps connection data: sends mine, answers the peer's. Both sides call it. Throws as TcpChannel
/// and decode_connection_info() do.
[[nodiscard]] inline ConnectionInfo exchange(TcpChannel& channel, const ConnectionInfo& mine,
                                             Duration timeout = TcpChannel::kDefaultTimeout) {
  channel.send(encode(mine), timeout);
  return decode_connection_info(channel.receive(timeout));
}

}  // namespace mrc::inline v0_1
