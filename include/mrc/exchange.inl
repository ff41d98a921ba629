// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/exchange.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/net/interface.hpp"

namespace mrc::inline v0_1::detail {

/// When a wait ends without success.
class MRC_LOCAL TcpWait {
 public:
  TcpWait(Duration timeout, const std::atomic<bool>* cancel) : timeout_(timeout), cancel_(cancel) {
    const Time now = monotonic_now();
    deadline_ = timeout > kNever - now ? kNever : now + timeout;
  }
  [[nodiscard]] Duration timeout() const noexcept { return timeout_; }
  [[nodiscard]] bool over() const noexcept { return monotonic_now() >= deadline_; }
  [[nodiscard]] bool cancelled() const noexcept {
    return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed);
  }
  /// What poll() may wait before the flag and the deadline are looked at again. A signal may come
  /// just before poll() or to another thread, so a sleep is never longer than 100 ms.
  [[nodiscard]] int slice_ms() const noexcept {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::min(deadline_ - monotonic_now(), Duration{std::chrono::milliseconds(100)}));
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }
  void check_cancelled(const std::string& what) const {
    if (cancelled())
      throw Error(std::make_error_code(std::errc::operation_canceled), "waiting for " + what);
  }

 private:
  Duration timeout_;
  Time deadline_{};
  const std::atomic<bool>* cancel_;
};

[[nodiscard]] std::error_code errno_code(int error = errno) {
  return {error, std::system_category()};
}
[[nodiscard]] std::string seconds_text(Duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

/// Waits until the socket is ready for `events` or in error. Throws when time is over.
void tcp_wait(const Socket& socket, short events, const TcpWait& wait, const std::string& what) {
  for (;;) {
    wait.check_cancelled(what);
    pollfd entry{socket.fd(), events, 0};
    const int ready = ::poll(&entry, 1, wait.slice_ms());
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw Error(errno_code(), "waiting for " + what);
    if (ready == 0 && wait.over())
      throw Error(Errc::timed_out, "waiting for " + what + " for " + seconds_text(wait.timeout()));
  }
}

void tcp_wait_readable(const Socket& socket, const TcpWait& wait, const std::string& what) {
  tcp_wait(socket, POLLIN, wait, what);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// The addresses of a host; empty: this one.
[[nodiscard]] AddressList tcp_lookup(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                  std::to_string(port).c_str(), &hints, &list);
  if (error != 0)
    throw Error(Errc::invalid_argument,
                "host '" + host + "' port " + std::to_string(port) + ": " +
                    (error == EAI_SYSTEM ? errno_code().message() : ::gai_strerror(error)) +
                    "; is the name right?");
  return {list, &::freeaddrinfo};
}

[[nodiscard]] bool same_ends(const Socket& socket) noexcept {
  port::SocketAddress own, remote;
  own.length = remote.length = sizeof own.v6;
  return ::getsockname(socket.fd(), &own.any, &own.length) == 0 &&
         ::getpeername(socket.fd(), &remote.any, &remote.length) == 0 &&
         own.peer() == remote.peer();
}

/// One try at one address. Returns 0 or the errno value; `socket` is connected when 0.
[[nodiscard]] int tcp_try(const addrinfo& address, const TcpWait& wait, const std::string& what,
                          Socket& socket) {
  socket = port::begin_connect(port::SocketAddress(address.ai_addr));
  if (!socket.open()) return errno;
  tcp_wait(socket, POLLOUT, wait, what);
  if (const int error = port::connect_result(socket).value_or(0); error != 0) return error;
  // A port of the ephemeral range on this very host can end up connected to itself while nobody
  // listens there.
  return same_ends(socket) ? ECONNREFUSED : 0;
}

/// Without AI_ADDRCONFIG, which leaves out ::1 on a host whose other addresses are all IPv4.
Socket tcp_connect(const std::string& host, std::uint16_t port, const TcpWait& wait) {
  const AddressList list = tcp_lookup(host, port);
  const std::string where = "'" + host + "' port " + std::to_string(port);
  for (;;) {
    int first_error = 0;  // addresses that this host can't reach come last (RFC 6724)
    bool refused = false;
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
      Socket socket;
      const int error =
          tcp_try(*a, wait, "an answer from " + where + " (is it reachable?)", socket);
      if (error == 0) return socket;
      if (first_error == 0) first_error = error;
      refused = refused || error == ECONNREFUSED;
    }
    if (!refused) throw Error(errno_code(first_error), "connecting to " + where);
    wait.check_cancelled(where);
    if (wait.over())
      throw Error(errno_code(ECONNREFUSED), "connecting to " + where + ", tried for " +
                                                seconds_text(wait.timeout()) +
                                                " (is the server running there?)");
    ::poll(nullptr, 0, std::min(wait.slice_ms(), 50));
  }
}

Socket tcp_listen(std::uint16_t port, const std::string& host) {
  Socket socket;
  int error = EADDRNOTAVAIL;
  if (host.empty()) {
    socket = port::listen_anywhere(port);
    error = errno;
  } else {
    const AddressList list = tcp_lookup(host, port);
    for (const addrinfo* a = list.get(); a != nullptr && !socket.open(); a = a->ai_next) {
      socket = port::listen_at(port::SocketAddress(a->ai_addr));
      error = errno;
    }
  }
  if (socket.open()) return socket;
  const char* remedy = error == EADDRINUSE ? " (choose another port, or end what uses it)"
                       : error == EACCES   ? " (ports below 1024 need privilege)"
                                           : "";
  throw Error(errno_code(error), "listening on " + (host.empty() ? "" : "'" + host + "' ") +
                                     "port " + std::to_string(port) + remedy);
}

std::uint16_t tcp_local_port(const Socket& socket) {
  const std::uint16_t port = port::bound_port(socket);
  if (port == 0) throw Error(errno_code(), "asking for the listening port");
  return port;
}

Socket tcp_accept(const Socket& listener, std::string& peer) {
  port::SocketAddress from;
  Socket socket = port::accept_one(listener, from);
  // A connection that was given up before it was accepted is no error of the listener.
  if (!socket.open() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
    throw Error(errno_code(), "accepting a connection");
  peer = "'" + port::format_ip(from.peer().ip) + "' port " + std::to_string(from.port());
  return socket;
}

void tcp_send(const Socket& socket, Bytes bytes, const TcpWait& wait, const std::string& peer) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0)
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    else if (errno == EAGAIN)
      tcp_wait(socket, POLLOUT, wait, peer + " to read");
    else if (errno != EINTR)
      throw Error(errno_code(), "sending to " + peer);
  }
}

std::size_t tcp_read(const Socket& socket, MutableBytes room, const std::string& peer) {
  for (;;) {
    const auto got = ::recv(socket.fd(), room.data(), room.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0)
      throw Error(errno_code(ECONNRESET),
                  "receiving from " + peer + ": it closed the connection (did it end or fail?)");
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) throw Error(errno_code(), "receiving from " + peer);
  }
}

bool tcp_closed(const Socket& socket) noexcept {
  char byte = 0;
  const auto got = ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void tcp_end_sending(const Socket& socket) noexcept {
  ::shutdown(socket.fd(), SHUT_WR);
}

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1 {

TcpChannel TcpChannel::connect(const std::string& host, std::uint16_t port, Duration timeout,
                               const std::atomic<bool>* cancel) {
  return {detail::tcp_connect(host, port, {timeout, cancel}),
          "'" + host + "' port " + std::to_string(port), cancel};
}

void TcpChannel::send(Bytes message, Duration timeout) {
  if (message.size() > kMaxMessageBytes)
    throw Error(Errc::too_long, "message of " + std::to_string(message.size()) + " bytes to " +
                                    peer_ + "; the limit is 16 MiB");
  const detail::TcpWait wait{timeout, cancel_};
  std::vector<std::uint8_t> frame;
  frame.reserve(kHead + message.size());
  ByteWriter(frame).u32(message.size()).bytes(message);
  try {
    detail::tcp_send(socket_, frame, wait, peer_);
  } catch (...) {
    // A part of the frame may be out, so no other can follow it: tell the peer.
    detail::tcp_end_sending(socket_);
    throw;
  }
}

void TcpChannel::send_text(std::string_view text, Duration timeout) {
  send({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, timeout);
}

std::vector<std::uint8_t> TcpChannel::receive(Duration timeout) {
  const detail::TcpWait wait{timeout, cancel_};
  std::optional<std::vector<std::uint8_t>> message;
  while (!(message = try_receive()))
    detail::tcp_wait_readable(socket_, wait, "a message from " + peer_);
  return std::move(*message);
}

std::string TcpChannel::receive_text(Duration timeout) {
  const auto bytes = receive(timeout);
  return {bytes.begin(), bytes.end()};
}

std::optional<std::vector<std::uint8_t>> TcpChannel::try_receive() {
  // The inbox grows as bytes arrive: the length field alone allocates nothing.
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

bool TcpChannel::peer_closed() const noexcept {
  return inbox_.empty() && detail::tcp_closed(socket_);
}

std::size_t TcpChannel::wanted() const {
  if (inbox_.size() < kHead) return kHead;
  const std::size_t size = ByteReader(inbox_).u32();
  if (size > limit_)
    throw Error(Errc::bad_message, "message of " + std::to_string(size) + " bytes from " + peer_ +
                                       "; the limit is " + std::to_string(limit_) +
                                       ": is it a program of this kind?");
  return kHead + size;
}

TcpListener::TcpListener(std::uint16_t port, const std::string& bind,
                         const std::atomic<bool>* cancel)
    : socket_(detail::tcp_listen(port, bind)),
      port_(detail::tcp_local_port(socket_)),
      cancel_(cancel) {}

TcpChannel TcpListener::accept(Duration timeout) {
  const detail::TcpWait wait{timeout, cancel_};
  std::string peer;
  detail::Socket socket;
  while (!(socket = detail::tcp_accept(socket_, peer)).open())
    detail::tcp_wait_readable(socket_, wait, "a connection on port " + std::to_string(port_));
  return {std::move(socket), std::move(peer), cancel_};
}

ConnectionInfo exchange(TcpChannel& channel, const ConnectionInfo& mine, Duration timeout) {
  channel.send(encode(mine), timeout);
  return decode_connection_info(channel.receive(timeout));
}

}  // namespace mrc::inline v0_1
