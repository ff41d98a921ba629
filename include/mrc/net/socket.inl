// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/net/socket.hpp"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mrc::inline v0_1::port {

bool try_option(const Socket& socket, int level, int name, int value) noexcept {
  return setsockopt(socket.fd(), level, name, &value, sizeof value) == 0;
}

void set_option(const Socket& socket, int level, int name, int value, const char* what) {
  if (!try_option(socket, level, name, value)) throw_errno(std::string("cannot set ") + what);
}

int get_option(const Socket& socket, int level, int name, int fallback) noexcept {
  int value = fallback;
  socklen_t size = sizeof value;
  return getsockopt(socket.fd(), level, name, &value, &size) == 0 ? value : fallback;
}

std::uint64_t set_buffer(const Socket& socket, int name, int force, std::uint32_t bytes) noexcept {
  const int wanted = bytes > 0x3FFF'FFFFu ? 0x3FFF'FFFF : static_cast<int>(bytes);
  if (!try_option(socket, SOL_SOCKET, force, wanted)) {
    // The kernel caps the value without an error. A failure leaves the default, which is read back.
    (void)try_option(socket, SOL_SOCKET, name, wanted);
  }
  const int actual = get_option(socket, SOL_SOCKET, name, 0);
  return actual > 0 ? static_cast<std::uint64_t>(actual) : 0;
}

std::uint32_t receive_buffer_fill(const Socket& socket) noexcept {
  std::uint32_t memory[SK_MEMINFO_VARS] = {};
  socklen_t size = sizeof memory;
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_MEMINFO, memory, &size) != 0) return 0;
  const std::uint64_t used = memory[SK_MEMINFO_RMEM_ALLOC], all = memory[SK_MEMINFO_RCVBUF];
  return all == 0 ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(128, used * 128 / all));
}

Socket make_udp_socket(const LocalAddress& local) {
  Socket socket(::socket(is_v4(local.ip) ? AF_INET : AF_INET6,
                         SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!socket.open()) throw_errno("cannot open a UDP socket for " + format_local(local));
  if (!is_v4(local.ip)) {
    set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
    // NICs and packet ports send UDP checksum 0 (mrc-1.0 §1.2), which the kernel drops otherwise.
    (void)try_option(socket, SOL_UDP, UDP_NO_CHECK6_RX, 1);
  }
  if (!local.interface.empty() &&
      setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, local.interface.data(),
                 static_cast<socklen_t>(local.interface.size())) != 0)
    throw_errno("cannot bind to interface " + local.interface);
  return socket;
}

SocketAddress::SocketAddress(const IpAddress& ip, std::uint16_t port, std::uint32_t scope) noexcept
    : v6{} {
  if (is_v4(ip)) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data() + 12, 4);
    length = sizeof v4;
  } else {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = is_link_local(ip) ? scope : 0;
    std::memcpy(&v6.sin6_addr, ip.data(), 16);
    length = sizeof v6;
  }
}

SocketAddress::SocketAddress(const sockaddr* from) noexcept : v6{} {
  if (from->sa_family == AF_INET)
    std::memcpy(&v4, from, length = sizeof v4);
  else
    std::memcpy(&v6, from, length = sizeof v6);
}

PeerAddress SocketAddress::peer() const noexcept {
  const auto ip = ip_of(&any);
  return ip ? PeerAddress{*ip, port()} : PeerAddress{};
}

std::optional<IpAddress> ip_of(const sockaddr* address) noexcept {
  if (address == nullptr) return std::nullopt;
  IpAddress ip = make_v4(0, 0, 0, 0);
  if (address->sa_family == AF_INET)
    std::memcpy(ip.data() + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  else if (address->sa_family == AF_INET6)
    std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  else
    return std::nullopt;
  return ip;
}

bool try_bind(const Socket& socket, const SocketAddress& address) noexcept {
  return ::bind(socket.fd(), &address.any, address.length) == 0;
}

std::uint16_t bound_port(const Socket& socket) noexcept {
  SocketAddress address;
  address.length = sizeof address.v6;
  return getsockname(socket.fd(), &address.any, &address.length) == 0 ? address.port() : 0;
}

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
