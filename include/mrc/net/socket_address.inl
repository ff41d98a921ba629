// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "mrc/net/socket_address.hpp"

namespace mrc::inline v0_1::port {

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

}  // namespace mrc::inline v0_1::port
