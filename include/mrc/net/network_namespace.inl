// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "mrc/core/siphash.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/network_namespace.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// The number of a network namespace's file below /proc; 0 if it can't be looked at.
[[nodiscard]] std::uint64_t inode_of(const char* path) noexcept {
  struct stat file {};
  return ::stat(path, &file) == 0 ? file.st_ino : 0;
}

/// Tells the network namespaces of a running kernel apart; 0 if that can't be found out.
[[nodiscard]] std::uint64_t namespace_number() noexcept {
  constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, from Linux 5.14 on
  for (const int family : {AF_INET, AF_INET6}) {
    const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    if (socket.open() && ::getsockopt(socket.fd(), SOL_SOCKET, kNetnsCookie, &cookie, &size) == 0)
      return cookie;
  }
  return inode_of("/proc/thread-self/ns/net");
}

}  // namespace detail

std::uint64_t network_namespace() noexcept {
  constexpr std::size_t kBootId = 36;
  std::array<std::uint8_t, kBootId + sizeof(std::uint64_t)> bytes{};
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const std::uint64_t number = detail::namespace_number();
  if (number == 0 || !file.open() || ::read(file.fd(), bytes.data(), kBootId) != kBootId) return 0;
  std::memcpy(bytes.data() + kBootId, &number, sizeof number);
  return siphash(SipKey{}, bytes);
}

bool in_other_network(::pid_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/ns/net", static_cast<int>(pid));
  const std::uint64_t there = detail::inode_of(path);
  const std::uint64_t here = detail::inode_of("/proc/thread-self/ns/net");
  return there != 0 && here != 0 && there != here;
}

}  // namespace mrc::inline v0_1::port
