// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/core/system_error.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/port/address.hpp"

/// What the socket ports need of the BSD socket interface: addresses and options.
namespace mrc::inline v0_1::port {

/// A socket, closed with its owner.
using Socket = UniqueFd;

/// A socket address of either family, always handed to the kernel with the right length.
struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;

  SocketAddress() noexcept : v6{} {}
  /// `scope` is the interface index for link-local addresses, or 0.
  SocketAddress(const IpAddress& ip, std::uint16_t port, std::uint32_t scope = 0) noexcept : v6{} {
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
};

/// setsockopt() of an int; false on failure with errno set.
[[nodiscard]] inline bool try_option(const Socket& socket, int level, int name,
                                     int value) noexcept {
  return setsockopt(socket.fd(), level, name, &value, sizeof value) == 0;
}

/// setsockopt() of an int that must succeed; `what` names the option in the Error.
inline void set_option(const Socket& socket, int level, int name, int value, const char* what) {
  if (!try_option(socket, level, name, value)) throw_errno(std::string("cannot set ") + what);
}

/// getsockopt() of an int; `fallback` on failure.
[[nodiscard]] inline int get_option(const Socket& socket, int level, int name,
                                    int fallback) noexcept {
  int value = fallback;
  socklen_t size = sizeof value;
  return getsockopt(socket.fd(), level, name, &value, &size) == 0 ? value : fallback;
}

/// Sets a socket buffer (SO_RCVBUF or SO_SNDBUF) as close to `bytes` as this process may, and
/// returns what the kernel accounts with: twice the value set, since it counts its own bookkeeping.
/// `force` is the privileged variant that passes net.core.{r,w}mem_max.
inline std::uint64_t set_buffer(const Socket& socket, int name, int force,
                                std::uint32_t bytes) noexcept {
  const int wanted = bytes > 0x3FFF'FFFFu ? 0x3FFF'FFFF : static_cast<int>(bytes);
  if (!try_option(socket, SOL_SOCKET, force, wanted)) {
    // Capped by the kernel without an error; a failure leaves the default, which is read back.
    (void)try_option(socket, SOL_SOCKET, name, wanted);
  }
  const int actual = get_option(socket, SOL_SOCKET, name, 0);
  return actual > 0 ? static_cast<std::uint64_t>(actual) : 0;
}

/// A non-blocking UDP socket of the family of `ip`, bound to `interface` if one is named. Throws
/// Error.
[[nodiscard]] inline Socket make_udp_socket(const LocalAddress& local) {
  Socket socket(::socket(is_v4(local.ip) ? AF_INET : AF_INET6,
                         SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!socket.open()) throw_errno("cannot open a UDP socket for " + format_ip(local.ip));
  if (!is_v4(local.ip)) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
  if (!local.interface.empty() &&
      setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, local.interface.data(),
                 static_cast<socklen_t>(local.interface.size())) != 0)
    throw_errno("cannot bind to interface " + local.interface);
  return socket;
}

/// bind(); false on failure with errno set.
[[nodiscard]] inline bool try_bind(const Socket& socket, const SocketAddress& address) noexcept {
  return ::bind(socket.fd(), &address.any, address.length) == 0;
}

/// The port that a socket is bound to, or 0.
[[nodiscard]] inline std::uint16_t bound_port(const Socket& socket) noexcept {
  SocketAddress address;
  address.length = sizeof address.v6;
  if (getsockname(socket.fd(), &address.any, &address.length) != 0) return 0;
  return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

}  // namespace mrc::inline v0_1::port
