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
#include "mrc/port/fault_spec.hpp"
#include "mrc/port/path.hpp"
#include "mrc/wire/dscp.hpp"
#include "mrc/wire/entropy.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/packet_layout.hpp"

namespace mrc::port {

/// An Ethernet address.
using MacAddress = std::array<std::uint8_t, 6>;

/// The outer header of a path to a peer: the stack of uSIDs in the destination address, and the
/// segment of an SRH where these are more than six (mrc-1.0 §4.1, §4.3).
struct PacketRoute {
  IpAddress destination{};
  IpAddress segment{};
  bool has_srh = false;
};

/// Everything that a PacketPort is made from. A plain value.
struct PacketPortOptions {
  std::string interface;  ///< the NIC port: this plane
  IpAddress local{};      ///< its IPv6 address: inner source of what is sent
  Plane plane = 0;        ///< copied into RxPacket::plane
  std::uint8_t slot = 0;  ///< packets to other slots' QPNs are left to other processes
  std::uint16_t udp_port = wire::kUdpPort;

  std::uint32_t mtu = 0;  ///< bytes of the largest IP packet on the way; 0: the interface's
  /// The largest outer header that packets get: bounds the payload.
  wire::Encapsulation encapsulation = wire::Encapsulation::ipv6_in_ipv6;
  std::vector<PortPath> paths;  ///< the plane's paths; port_path < 4096
  wire::EvFormat ev_format = wire::EvFormat::stev;

  /// Where packets go next; without a value routes and neighbours of the kernel say so.
  std::optional<MacAddress> next_hop;

  std::uint32_t receive_buffer = 8u << 20;  ///< SO_RCVBUF wanted, bytes; the kernel may cap it
  std::uint32_t send_buffer = 1u << 20;     ///< SO_SNDBUF, bytes
  std::uint16_t receive_slots = 64;         ///< packets per receive call, 64 KiB each; 1 .. 256
  /// Sends past the interface's queueing discipline: cheaper, but what the discipline does (rates,
  /// say) does not happen, and a full device drops.
  bool bypass_qdisc = false;

  /// False: the iCRC is sent as 0 and not looked at (both ends must agree).
  bool icrc = true;
  wire::DscpMap dscp;  ///< to recognise trimmed packets

  FaultSpec faults;                  ///< in force from the start
  std::uint64_t fault_seed = 1;      ///< of the fault injector
  std::uint32_t fault_slots = 2048;  ///< packets that faults can hold back at a time

  /// Throws Error that names the option, its value and what is allowed.
  void check() const {
    const auto reject = [](const std::string& what) {
      throw Error(Errc::invalid_argument, "packet port: " + what);
    };
    if (interface.empty()) reject("no interface is named");
    if (is_v4(local) || is_unspecified(local))
      reject("the local address is " + format_ip(local) + ", must be an IPv6 address");
    if (udp_port == 0) reject("udp_port is 0");
    if (receive_slots < 1 || receive_slots > 256)
      reject("receive_slots is " + std::to_string(receive_slots) + ", allowed is 1 to 256");
    if (fault_slots < 1 || fault_slots > 65536)
      reject("fault_slots is " + std::to_string(fault_slots) + ", allowed is 1 to 65536");
    if (plane >= kMaxPlanes) reject("plane is " + std::to_string(plane) + ", allowed is 0 to 31");
    if (paths.empty()) reject("it has no paths");
    for (const PortPath& path : paths)
      if (path.port_path >= kMaxPaths)
        reject("path " + std::to_string(path.port_path) + " is over " +
               std::to_string(kMaxPaths - 1));
    if (!dscp.valid())
      reject(
          "DSCP values must be below 64, and those of trimmed packets different from all that "
          "hosts send");
  }

  static constexpr std::size_t kMaxPaths = 4096;
};

}  // namespace mrc::port
