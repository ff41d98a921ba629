// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/core/time.hpp"
#include "mrc/exchange/tcp_socket.hpp"

namespace mrc::inline v0_1::detail {

/// When a wait ends without success.
class TcpWait {
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

[[nodiscard]] inline std::error_code errno_code(int error = errno) {
  return {error, std::system_category()};
}
[[nodiscard]] inline std::string seconds_text(Duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

/// Waits until the socket is ready for `events` or in error. Throws when time is over.
inline void tcp_wait(const Socket& socket, short events, const TcpWait& wait,
                     const std::string& what) {
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

MRC_SETUP void tcp_wait_readable(const Socket& socket, const TcpWait& wait,
                                 const std::string& what) {
  tcp_wait(socket, POLLIN, wait, what);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Looks up a host; an empty one is every local address (for a listener).
[[nodiscard]] inline AddressList tcp_lookup(const std::string& host, std::uint16_t port, int family,
                                            int flags) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
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

[[nodiscard]] inline Socket tcp_open(const addrinfo& address) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int one = 1;
  // Messages are small and answered: waiting to fill a segment only delays them.
  if (socket.open()) ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return socket;
}

[[nodiscard]] inline bool same_ends(const Socket& socket) noexcept {
  sockaddr_storage local{}, remote{};
  socklen_t local_length = sizeof local, remote_length = sizeof remote;
  return ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &local_length) == 0 &&
         ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&remote), &remote_length) == 0 &&
         local_length == remote_length &&
         std::equal(reinterpret_cast<const char*>(&local),
                    reinterpret_cast<const char*>(&local) + local_length,
                    reinterpret_cast<const char*>(&remote));
}

/// One try at one address. Returns 0 or the errno value; `socket` is connected when 0.
[[nodiscard]] inline int tcp_try(const addrinfo& address, const TcpWait& wait,
                                 const std::string& what, Socket& socket) {
  socket = tcp_open(address);
  if (!socket.open()) return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    // An interrupted connect goes on by itself, like one in progress.
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    tcp_wait(socket, POLLOUT, wait, what);
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
    if (error != 0) return error;
  }
  // A port of the ephemeral range on this very host can end up connected to itself while nobody
  // listens there.
  return same_ends(socket) ? ECONNREFUSED : 0;
}

/// Without AI_ADDRCONFIG, which leaves out ::1 on a host whose other addresses are all IPv4.
MRC_SETUP Socket tcp_connect(const std::string& host, std::uint16_t port, const TcpWait& wait) {
  const AddressList list = tcp_lookup(host, port, AF_UNSPEC, 0);
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

/// One try at listening; error is the errno value when the socket is not valid.
[[nodiscard]] inline Socket tcp_try_listen(const addrinfo& address, int& error) {
  Socket socket = tcp_open(address);
  const int one = 1, off = 0;
  const bool done = socket.open() &&
                    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                    (address.ai_family != AF_INET6 ||
                     ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
                    ::bind(socket.fd(), address.ai_addr, address.ai_addrlen) == 0 &&
                    ::listen(socket.fd(), 64) == 0;
  error = done ? 0 : errno;
  return done ? std::move(socket) : Socket{};
}

MRC_SETUP Socket tcp_listen(std::uint16_t port, const std::string& host) {
  int error = EADDRNOTAVAIL;
  for (const int family : {AF_INET6, AF_INET}) {
    const AddressList list =
        tcp_lookup(host, port, host.empty() ? family : int{AF_UNSPEC}, AI_PASSIVE);
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next)
      if (Socket socket = tcp_try_listen(*a, error); socket.open()) return socket;
    // These hold for both families: report them instead of trying IPv4.
    if (!host.empty() || error == EADDRINUSE || error == EACCES) break;
  }
  const char* remedy = error == EADDRINUSE ? " (choose another port, or end what uses it)"
                       : error == EACCES   ? " (ports below 1024 need privilege)"
                                           : "";
  throw Error(errno_code(error), "listening on " + (host.empty() ? "" : "'" + host + "' ") +
                                     "port " + std::to_string(port) + remedy);
}

MRC_SETUP std::uint16_t tcp_local_port(const Socket& socket) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &length) != 0)
    throw Error(errno_code(), "asking for the listening port");
  return ntohs(local.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(local).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(local).sin_port);
}

MRC_SETUP Socket tcp_accept(const Socket& listener, std::string& peer) {
  sockaddr_storage remote{};
  socklen_t length = sizeof remote;
  Socket socket(::accept4(listener.fd(), reinterpret_cast<sockaddr*>(&remote), &length,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) {
    // A connection that was given up before it was accepted is no error of the listener.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return socket;
    throw Error(errno_code(), "accepting a connection");
  }
  const int one = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  char host[NI_MAXHOST] = "?", service[NI_MAXSERV] = "?";
  ::getnameinfo(reinterpret_cast<sockaddr*>(&remote), length, host, sizeof host, service,
                sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
  peer = "'" + std::string(host) + "' port " + service;
  return socket;
}

MRC_SETUP void tcp_send(const Socket& socket, Bytes bytes, const TcpWait& wait,
                        const std::string& peer) {
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

MRC_SETUP std::size_t tcp_read(const Socket& socket, MutableBytes room, const std::string& peer) {
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

MRC_SETUP bool tcp_closed(const Socket& socket) noexcept {
  char byte = 0;
  const auto got = ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

MRC_SETUP void tcp_end_sending(const Socket& socket) noexcept {
  ::shutdown(socket.fd(), SHUT_WR);
}

}  // namespace mrc::inline v0_1::detail
