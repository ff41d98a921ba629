// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>

#include "mrc/core/uncancelled.hpp"

/// Those of sockets (core/uncancelled.hpp).
namespace mrc::inline v0_1::uncancelled {

/// Like that of the C library.
inline ssize_t recv(int fd, void* to, std::size_t size, int flags) noexcept {
  const Uncancelled now;
  return ::recv(fd, to, size, flags);
}
/// Like that of the C library.
inline int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags) noexcept {
  const Uncancelled now;
  return ::recvmmsg(fd, messages, count, flags, nullptr);
}
/// Like that of the C library.
inline int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) noexcept {
  const Uncancelled now;
  return ::sendmmsg(fd, messages, count, flags);
}

}  // namespace mrc::inline v0_1::uncancelled
