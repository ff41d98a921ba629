// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "mrc/core/siphash.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/network_namespace.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Tells the network namespaces of a running kernel apart; 0 if that can't be found out.
[[nodiscard]] inline std::uint64_t namespace_number() noexcept {
  constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, from Linux 5.14 on
  for (const int family : {AF_INET, AF_INET6}) {
    const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    if (socket.open() && ::getsockopt(socket.fd(), SOL_SOCKET, kNetnsCookie, &cookie, &size) == 0)
      return cookie;
  }
  struct stat file {};
  return ::stat("/proc/thread-self/ns/net", &file) == 0 ? file.st_ino : 0;
}

}  // namespace detail

MRC_SETUP std::uint64_t network_namespace() noexcept {
  constexpr std::size_t kBootId = 36;
  std::array<std::uint8_t, kBootId + sizeof(std::uint64_t)> bytes{};
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const std::uint64_t number = detail::namespace_number();
  if (number == 0 || !file.open() || ::read(file.fd(), bytes.data(), kBootId) != kBootId) return 0;
  std::memcpy(bytes.data() + kBootId, &number, sizeof number);
  return siphash(SipKey{}, bytes);
}

}  // namespace mrc::inline v0_1::port
