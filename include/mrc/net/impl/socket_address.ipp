// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "mrc/net/socket_address.hpp"

namespace mrc::inline v0_1::port {

MRC_SETUP SocketAddress::SocketAddress(const IpAddress& ip, std::uint16_t port,
                                       std::uint32_t scope) noexcept
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

MRC_SETUP bool try_bind(const Socket& socket, const SocketAddress& address) noexcept {
  return ::bind(socket.fd(), &address.any, address.length) == 0;
}

MRC_SETUP std::uint16_t bound_port(const Socket& socket) noexcept {
  SocketAddress address;
  address.length = sizeof address.v6;
  if (getsockname(socket.fd(), &address.any, &address.length) != 0) return 0;
  return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

}  // namespace mrc::inline v0_1::port
