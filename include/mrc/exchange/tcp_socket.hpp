// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"

/// TCP sockets for the exchange of connection data: non-blocking, waits that end at a deadline or
/// when a flag is set, errors that name host, port, cause and remedy. Set-up only. Socket
/// headers are included by tcp_socket.inl only.
namespace mrc::inline v0_1::detail {

/// A TCP socket, closed with its owner.
using Socket = UniqueFd;

class TcpWait;  // deadline and cancel flag (tcp_socket.inl)

/// Waits until something can be read, or the socket is in error. Throws when time is over; `what`
/// is what is waited for, in the message.
void tcp_wait_readable(const Socket& socket, const TcpWait& wait, const std::string& what);

/// Connects; tries again while the port refuses.
[[nodiscard]] Socket tcp_connect(const std::string& host, std::uint16_t port, const TcpWait& wait);

/// Without an address: an IPv6 socket that takes IPv4 too, or IPv4 where there is no IPv6.
[[nodiscard]] Socket tcp_listen(std::uint16_t port, const std::string& host);

/// The port that a listener got.
[[nodiscard]] std::uint16_t tcp_local_port(const Socket& socket);

/// The next connection, or an invalid socket when there is none yet.
[[nodiscard]] Socket tcp_accept(const Socket& listener, std::string& peer);

/// Sends all of it.
void tcp_send(const Socket& socket, Bytes bytes, const TcpWait& wait, const std::string& peer);

/// Nothing more will be sent: the peer reads the end of the connection.
void tcp_end_sending(const Socket& socket) noexcept;

/// Reads what is there into `room` (not empty): 0 when nothing is there yet. Throws at the end of
/// the connection.
[[nodiscard]] std::size_t tcp_read(const Socket& socket, MutableBytes room,
                                   const std::string& peer);

/// True when the next read would find the end of the connection or an error.
[[nodiscard]] bool tcp_closed(const Socket& socket) noexcept;

}  // namespace mrc::inline v0_1::detail
