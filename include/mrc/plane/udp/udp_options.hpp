// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/api/device_stats.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/port_options.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// Everything that a UdpPort is made from. A plain value. Without iCRC, UDP's checksum remains.
struct UdpPortOptions : PortOptions {
  LocalAddress local;  ///< address, interface or both: the plane

  /// The receiving socket is bound to UDP port base_port + slot.
  std::uint16_t base_port = wire::kUdpPort;

  /// Number of paths, 1 .. 4096: each is a socket bound to a source port of its own.
  std::uint16_t paths = 16;
  /// Source port of each path; empty: the kernel chooses. Otherwise one for each of `paths`.
  std::vector<std::uint16_t> source_ports;
  /// IPv6 flow label of each path; empty: derived from the source port. Else one for each path.
  std::vector<std::uint16_t> flow_labels;
  /// Without a value: udp on IPv4, stev on IPv6 if flow labels can be had, else udp.
  std::optional<wire::EvFormat> ev_format;

  Offload gso = Offload::automatic;  ///< one call sends a burst
  Offload gro = Offload::automatic;  ///< one datagram received can be a burst

  /// Throws Error that names the option, its value and what is allowed.
  void check() const;
};

}  // namespace mrc::inline v0_1::port
