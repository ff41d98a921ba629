// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/path.hpp"
#include "mrc/port/port_options.hpp"
#include "mrc/wire/entropy.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/packet_layout.hpp"

namespace mrc::inline v0_1::port {

using wire::MacAddress;

/// The outer header of a path to a peer: the stack of uSIDs in the destination address, and the
/// segment of an SRH where these are more than six (mrc-1.0 §4.1, §4.3).
struct PacketRoute {
  IpAddress destination{};
  IpAddress segment{};
  bool has_srh = false;
};

/// Everything that a PacketPort is made from. A plain value.
struct PacketPortOptions : PortOptions {
  PacketPortOptions() { receive_slots = 64; }  // each brings one packet

  std::string interface;  ///< the NIC port: this plane
  /// It need not be there: then the port is down, as after it was removed, until it comes.
  bool may_be_absent = false;
  IpAddress local{};  ///< its IPv6 address: inner source of what is sent
  std::uint16_t udp_port = wire::kUdpPort;

  std::uint32_t mtu = 0;  ///< bytes of the largest IP packet on the way; 0: the interface's
  /// The largest outer header that packets get: bounds the payload.
  wire::Encapsulation encapsulation = wire::Encapsulation::ipv6_in_ipv6;
  std::vector<PortPath> paths;  ///< the plane's paths; port_path < 4096
  wire::EvFormat ev_format = wire::EvFormat::stev;

  /// Where packets go next; without a value routes and neighbours of the kernel say so.
  std::optional<MacAddress> next_hop;

  /// Throws Error that names the option, its value and what is allowed.
  void check() const {
    constexpr const char* kKind = "packet port";
    PortOptions::check(kKind);
    const auto wrong = [&](const std::string& what) {
      throw Error(Errc::invalid_argument, std::string(kKind) + ": " + what);
    };
    if (interface.empty()) wrong("no interface is named");
    if (is_v4(local) || is_unspecified(local))
      wrong("the local address is " + format_ip(local) + ", must be an IPv6 address");
    if (udp_port == 0) reject(kKind, "udp_port", udp_port, "1 to 65535");
    if (paths.empty()) wrong("it has no paths");
    for (const PortPath& path : paths)
      if (path.port_path >= kMaxPaths)
        reject(kKind, "port_path", path.port_path,
               ("0 to " + std::to_string(kMaxPaths - 1)).c_str());
  }

  static constexpr std::size_t kMaxPaths = 4096;
};

}  // namespace mrc::inline v0_1::port
