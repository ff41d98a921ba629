// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "mrc/net/tcp.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Messages are small and answered: waiting to fill a segment only delays them.
[[nodiscard]] Socket prompt(Socket socket) noexcept {
  if (socket.open()) (void)try_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}
[[nodiscard]] Socket stream_socket(const SocketAddress& address) noexcept {
  return prompt(
      Socket(::socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
}
/// The socket if `done`; else none, and errno as it is.
[[nodiscard]] Socket only_if(bool done, Socket socket) noexcept {
  const int error = errno;
  if (!done) socket.close();
  errno = error;
  return socket;
}

}  // namespace detail

Socket listen_at(const SocketAddress& at) noexcept {
  Socket socket = detail::stream_socket(at);
  const bool v6 = at.any.sa_family == AF_INET6;
  // A port that was chosen may still have connections of earlier listeners, which are no obstacle.
  const bool done = socket.open() &&
                    (at.port() == 0 || try_option(socket, SOL_SOCKET, SO_REUSEADDR, 1)) &&
                    (!v6 || try_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0)) &&
                    try_bind(socket, at) && ::listen(socket.fd(), SOMAXCONN) == 0;
  return detail::only_if(done, std::move(socket));
}

Socket listen_anywhere(std::uint16_t port) noexcept {
  Socket socket = listen_at({IpAddress{}, port});
  // The port is taken, or not allowed, in both families; anything else may be a lack of IPv6.
  if (socket.open() || errno == EADDRINUSE || errno == EACCES) return socket;
  return listen_at({make_v4(0, 0, 0, 0), port});
}

Socket accept_one(const Socket& listener, SocketAddress& from) noexcept {
  from.length = sizeof from.v6;
  return detail::prompt(
      Socket(::accept4(listener.fd(), &from.any, &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC)));
}

Socket begin_connect(const SocketAddress& to) noexcept {
  Socket socket = detail::stream_socket(to);
  // An interrupted connect goes on by itself, like one in progress.
  const bool done = socket.open() && (::connect(socket.fd(), &to.any, to.length) == 0 ||
                                      errno == EINPROGRESS || errno == EINTR);
  return detail::only_if(done, std::move(socket));
}

std::optional<int> connect_result(const Socket& socket) noexcept {
  pollfd entry{socket.fd(), POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return std::nullopt;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

}  // namespace mrc::inline v0_1::port
