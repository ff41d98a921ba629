// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/wire/ip.hpp"

/// AF_PACKET sockets, and the state of the interface that they are bound to.
namespace mrc::inline v0_1::port {

/// A packet socket that is not bound, so it receives nothing yet. Throws Error.
[[nodiscard]] Socket open_packet_socket();

/// Binds to an interface; `protocol` 0 receives nothing. False on failure with errno set.
[[nodiscard]] bool bind_packet_socket(const Socket& socket, std::uint32_t index,
                                      std::uint16_t protocol) noexcept;

/// The present state of an interface; `index` 0: there is none of that name.
struct InterfaceState {
  std::uint32_t index = 0;  ///< the kernel's number of it
  bool up = false;          ///< administratively, and with a carrier
  wire::MacAddress mac{};   ///< its hardware address
  std::uint32_t mtu = 0;    ///< bytes of the largest IP packet
};

/// Reads the state with a few system calls.
[[nodiscard]] InterfaceState look_up_interface(const Socket& socket,
                                               const std::string& name) noexcept;

/// Whether the kernel forwards IPv6 packets that come in by the interface.
[[nodiscard]] bool forwards_ipv6(const std::string& interface);

/// Binds a UDP socket that discards everything. Without one, the kernel would answer packets that
/// arrive as plain IPv6 and with a UDP checksum with ICMPv6 "port unreachable". Closed where
/// another program has the port, which keeps the kernel quiet as well; if something else fails,
/// `notes` gets a line, too.
[[nodiscard]] Socket silence_udp(const IpAddress& local, std::uint16_t udp_port,
                                 std::vector<std::string>& notes);

}  // namespace mrc::inline v0_1::port
