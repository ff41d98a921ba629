// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <initializer_list>
#include <string>

#include "mrc/core/system_error.hpp"

namespace mrc::inline v0_1::detail {

/// System calls whose failure a running device can't report: it would seem that no packets come, or
/// that there is always something to wake up for.
enum class SystemCall : unsigned char { poll, ppoll, read, write, recvfrom, recvmmsg, sendmmsg };

[[nodiscard]] constexpr const char* to_string(SystemCall call) noexcept {
  constexpr const char* kNames[] = {"poll",     "ppoll",    "read",    "write",
                                    "recvfrom", "recvmmsg", "sendmmsg"};
  return kNames[static_cast<unsigned>(call)];
}

/// errno of a call that does nothing: 0, or EBADF of descriptor -1, unless something refuses it.
[[nodiscard]] inline int try_system_call(SystemCall call) noexcept {
  char byte = 0;
  mmsghdr message{};
  const timespec none{};
  long result = 0;
  switch (call) {
    case SystemCall::poll:
      result = ::poll(nullptr, 0, 0);
      break;
    case SystemCall::ppoll:
      result = ::ppoll(nullptr, 0, &none, nullptr);
      break;
    case SystemCall::read:
      result = ::read(-1, &byte, 1);
      break;
    case SystemCall::write:
      result = ::write(-1, &byte, 1);
      break;
    case SystemCall::recvfrom:
      result = ::recv(-1, &byte, 1, MSG_DONTWAIT);
      break;
    case SystemCall::recvmmsg:
      result = ::recvmmsg(-1, &message, 1, MSG_DONTWAIT, nullptr);
      break;
    case SystemCall::sendmmsg:
      result = ::sendmmsg(-1, &message, 1, MSG_DONTWAIT);
      break;
  }
  return result < 0 ? errno : 0;
}

/// Throws mrc::Error, which names the call, if one of these is blocked, as seccomp filters do it:
/// with EPERM, EACCES or ENOSYS. One that kills the process does so here.
inline void require(std::initializer_list<SystemCall> calls) {
  for (const SystemCall call : calls) {
    const int error = try_system_call(call);
    if (error != EPERM && error != EACCES && error != ENOSYS) continue;
    throw_errno(std::string("system call ") + to_string(call) +
                    " is blocked, probably by a seccomp filter (of a container, or systemd's "
                    "SystemCallFilter=), which must allow what docs/system_calls.md lists",
                error);
  }
}

}  // namespace mrc::inline v0_1::detail
