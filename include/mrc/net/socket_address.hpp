// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "mrc/net/address.hpp"
#include "mrc/net/socket.hpp"

namespace mrc::inline v0_1::port {

/// A socket address of either IP version with the length that the kernel wants for it.
struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;  ///< bytes; 0: no address

  SocketAddress() noexcept : v6{} {}
  /// `port` is in host byte order; `scope` is the interface index, used for link-local addresses.
  SocketAddress(const IpAddress& ip, std::uint16_t port, std::uint32_t scope = 0) noexcept;
  /// A copy of an address of either IP version, as lists of addresses have them.
  explicit SocketAddress(const sockaddr* from) noexcept;

  /// In host byte order; 0: none.
  [[nodiscard]] std::uint16_t port() const noexcept {
    return ntohs(any.sa_family == AF_INET ? v4.sin_port : v6.sin6_port);
  }
  /// Address and port. Of neither IP version: nothing is said.
  [[nodiscard]] PeerAddress peer() const noexcept;
};

/// The IP address in an entry of a list of addresses; nothing if it is of another kind, or null.
[[nodiscard]] std::optional<IpAddress> ip_of(const sockaddr* address) noexcept;

/// bind(); false on failure with errno set.
[[nodiscard]] bool try_bind(const Socket& socket, const SocketAddress& address) noexcept;

/// The port that a socket is bound to, in host byte order, or 0.
[[nodiscard]] std::uint16_t bound_port(const Socket& socket) noexcept;

}  // namespace mrc::inline v0_1::port
