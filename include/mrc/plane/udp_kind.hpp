// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// Slots: several processes share a host's addresses. Each claims a number from 0 to 255, receives
/// at UDP port base + slot on all its planes and puts the slot into the top 8 bits of its QPNs, so
/// that an address and a QPN are enough to find it. On MRC's standard port, slot 0 receives at both
/// of its numbers, 4791 and 4971 (mrc-1.0 [C-1]), and slot 180, whose port the latter would be, is
/// not used.

/// Slots per host.
inline constexpr unsigned kSlots = 256;

/// The other UDP port at which a slot receives: 4971 if its own is MRC's standard 4791. 0: none.
[[nodiscard]] constexpr std::uint16_t second_port(std::uint16_t base_port, unsigned slot) noexcept {
  return base_port == wire::kUdpPort && slot == 0 ? wire::kUdpPortAlternative : std::uint16_t{0};
}

/// A claimed slot. The bound sockets are the claim.
struct SlotClaim {
  std::uint8_t slot = 0;                  ///< top 8 bits of its QPNs
  std::vector<Socket> sockets;            ///< one for each address, for its UdpPort
  std::vector<Socket> second_sockets;     ///< at second_port(); not open: none, or not to be had
  std::vector<std::uint16_t> base_ports;  ///< UdpPortOptions::base_port of each
  std::vector<std::string> notes;         ///< to be logged: standard ports that other programs have
};

/// Claims slot `wanted`, or the lowest free one: base_port + slot can be bound on all `addresses`.
/// Where several planes share an address, each further one has a base port higher by kSlots.
/// Throws Error that names the address and port in use, or what else is wrong.
[[nodiscard]] SlotClaim claim_slot(std::span<const LocalAddress> addresses,
                                   std::uint16_t base_port = wire::kUdpPort,
                                   std::optional<std::uint8_t> wanted = std::nullopt);

namespace detail {

/// Opens and binds the receiving socket of a plane, with the options for ancillary data (ToS, flow
/// label), so that the first packet has it too. Not open if the UDP port is in use. Throws Error.
[[nodiscard]] Socket open_receive_socket(const LocalAddress& local, std::uint16_t udp_port);

/// Throws an Error with the code EADDRINUSE.
[[noreturn]] void throw_in_use(const std::string& what);

}  // namespace detail

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

/// At which addresses a host may be found of which one address, its GID, is known.

/// An own plane's address, and the subnet that it is in.
struct OwnAddress {
  port::IpAddress ip{};
  unsigned prefix = 128;   ///< bits of the subnet, counted in the mapped form for IPv4
  std::uint16_t port = 0;  ///< UDP port of the process that is looked for, in a plane like this one
};

/// Is the address in the subnet of the own one?
[[nodiscard]] bool in_subnet(const OwnAddress& own, const port::IpAddress& ip) noexcept;

/// Addresses of the host with that GID: the GID, and those that the host has if its planes are
/// numbered as this one's are: where this host has the same host part in two planes' subnets, so
/// has the other. If the GID is one of this host's own, all own addresses. Who has such an address
/// has it from the operator, as the GID itself, so its answers count as those of the GID do.
[[nodiscard]] std::vector<port::PeerAddress> likely_addresses(std::span<const OwnAddress> own,
                                                              const port::IpAddress& gid);

/// All pairs of an own plane and one of the host's addresses, likeliest first: in the same subnet,
/// with the GID itself, from the plane that is this device's own GID. IPv4 and IPv6 are never
/// paired.
[[nodiscard]] std::vector<Contact> pairs_to_ask(std::span<const OwnAddress> own, Plane first,
                                                const port::IpAddress& gid,
                                                std::span<const port::PeerAddress> addresses);

/// Planes on UDP sockets: one per local address of option planes. Every peer is reached over all
/// paths of the port, by its address alone.
[[nodiscard]] std::unique_ptr<PlaneKind> make_udp_kind();

}  // namespace mrc::inline v0_1::detail
