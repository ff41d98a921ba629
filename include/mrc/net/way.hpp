// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mrc/net/address.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/net/socket_interface.hpp"

/// By which interfaces packets leave this host: what the kernel's routes and rules say. Asking
/// sends nothing. All functions are thread-safe.
namespace mrc::inline v0_1::port {

/// By which interfaces packets from one address leave for another. A plain value.
struct Way {
  /// Next hops that are looked at, most.
  static constexpr std::size_t kMost = 8;
  /// The loopback interface's index, in every network namespace.
  static constexpr std::uint32_t kLoopback = 1;

  /// Indices of the next hops' interfaces, then 0. None at all: unknown, or `none`. That of the
  /// loopback interface if the other address is one of this host, too.
  std::array<std::uint32_t, kMost> interfaces{};
  bool none = false;  ///< there is no route
  /// Packets leave by that interface only if their socket is bound to it: by the route alone, some
  /// would take another.
  bool bound = false;
};

/// The way of packets that are to leave by `own`, the interface that has their source address: by
/// that if it is a link and a route there leads to the destination, else as the route says. Both
/// addresses are of one IP version.
[[nodiscard]] Way find_way(const Interface& own, const IpAddress& source,
                           const IpAddress& destination) noexcept;

/// The MTU, in bytes, of packets from an address: that of `own`, the interface that has it, if it
/// is a link or the address a loopback address. Else the smallest one of the links that may carry
/// them: of those by which routers are reached, without the ones of default routes if there are
/// others, or else of all that are up. `own`'s if there are none. Links that lead to their
/// neighbours only may carry none of them: who has a peer there asks for the way to it. Throws
/// Error.
[[nodiscard]] std::uint32_t outgoing_mtu(const Socket& socket, const Interface& own,
                                         const IpAddress& source);

}  // namespace mrc::inline v0_1::port
