// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/port_options.hpp"
#include "mrc/plane/port_path.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::inline v0_1::port {

using wire::MacAddress;

/// The outer header of a path to a peer: the stack of uSIDs in the destination address, and the
/// segment of an SRH where these are more than six (mrc-1.0 §4.1, §4.3).
struct PacketRoute {
  IpAddress destination{};  ///< outer destination address: the first uSID carrier
  IpAddress segment{};      ///< second carrier, if has_srh
  bool has_srh = false;     ///< more than six uSIDs
};

/// Everything that a PacketPort is made from. A plain value.
struct PacketPortOptions : PortOptions {
  PacketPortOptions() { receive_slots = 64; }  // each brings one packet

  std::string interface;  ///< the NIC port: this plane
  /// True: if the interface does not exist, the port opens and is down until the interface appears.
  bool may_be_absent = false;
  IpAddress local{};  ///< IPv6 address of this plane: (inner) source of the packets sent
  std::uint16_t udp_port = wire::kUdpPort;  ///< UDP port that peers send to

  std::uint32_t mtu = 0;  ///< bytes of the largest IP packet on the way; 0: the interface's
  /// The largest encapsulation that packets get: limits the payload.
  wire::Encapsulation encapsulation = wire::Encapsulation::ipv6_in_ipv6;
  std::vector<PortPath> paths;                      ///< the plane's paths; port_path < 4096
  wire::EvFormat ev_format = wire::EvFormat::stev;  ///< how EVs are carried; the same on both sides

  /// Ethernet address that all frames are sent to; without a value, taken from the kernel's routes
  /// and neighbours.
  std::optional<MacAddress> next_hop;

  /// Throws Error that names the option, its value and what is allowed.
  void check() const;

  /// Upper bound of port_path, exclusive.
  static constexpr std::size_t kMaxPaths = 4096;
};

}  // namespace mrc::inline v0_1::port
