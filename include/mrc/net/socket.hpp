// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>

#include "mrc/core/system_error.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"

/// File descriptors and socket options. Socket addresses are in socket_address.hpp.
namespace mrc::inline v0_1::port {

/// A socket, closed with its owner.
using Socket = UniqueFd;

/// setsockopt() of an int; false on failure with errno set.
[[nodiscard]] bool try_option(const Socket& socket, int level, int name, int value) noexcept;

/// setsockopt() of an int that must succeed; `what` names the option in the Error.
void set_option(const Socket& socket, int level, int name, int value, const char* what);

/// getsockopt() of an int; `fallback` on failure.
[[nodiscard]] int get_option(const Socket& socket, int level, int name, int fallback) noexcept;

/// Sets a socket buffer (`name` is SO_RCVBUF or SO_SNDBUF) as close to `bytes` as the kernel allows
/// this process, and returns the size in effect: Linux doubles the value that was set, to have room
/// for its bookkeeping. `force` is the privileged option (SO_RCVBUFFORCE, SO_SNDBUFFORCE), which is
/// not limited by net.core.{r,w}mem_max.
std::uint64_t set_buffer(const Socket& socket, int name, int force, std::uint32_t bytes) noexcept;

/// The part of a socket's receive buffer that is in use, as the kernel charges it, in 1/128: 128 is
/// full. 0 on failure. Costs a system call.
[[nodiscard]] std::uint32_t receive_buffer_fill(const Socket& socket) noexcept;

/// A non-blocking UDP socket of the family of `local.ip`, tied to `local.interface` if one is
/// named. Over IPv6 it receives packets without a UDP checksum, too (mrc-1.0 §1.2). Not bound to an
/// address yet. Throws Error.
[[nodiscard]] Socket make_udp_socket(const LocalAddress& local);

}  // namespace mrc::inline v0_1::port
