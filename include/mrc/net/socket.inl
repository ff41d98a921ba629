// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "mrc/net/socket.hpp"

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

}  // namespace mrc::inline v0_1::port
