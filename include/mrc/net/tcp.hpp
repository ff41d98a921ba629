// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "mrc/net/socket.hpp"
#include "mrc/net/socket_address.hpp"

/// TCP sockets on which nothing waits. What returns a socket returns one that is not open, with
/// errno, when it fails. Set-up only; any thread.
namespace mrc::inline v0_1::port {

/// Listens at that address, on a free port if it names none.
[[nodiscard]] Socket listen_at(const SocketAddress& at) noexcept;
/// Listens at all addresses of this host, IPv6 and IPv4.
[[nodiscard]] Socket listen_anywhere(std::uint16_t port) noexcept;
/// The next connection, and where it comes from. EAGAIN: there is none yet.
[[nodiscard]] Socket accept_one(const Socket& listener, SocketAddress& from) noexcept;
/// Begins to connect.
[[nodiscard]] Socket begin_connect(const SocketAddress& to) noexcept;
/// How a connect goes on: nothing yet, 0 when it is connected, or an errno value.
[[nodiscard]] std::optional<int> connect_result(const Socket& socket) noexcept;

}  // namespace mrc::inline v0_1::port
