// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/fault_spec.hpp"
#include "mrc/wire/dscp.hpp"
#include "mrc/wire/entropy.hpp"

namespace mrc::port {

/// Whether to use a feature that the kernel may lack.
enum class Offload : std::uint8_t {
  off,
  on,         ///< opening the port fails without it
  automatic,  ///< used if there; its absence is one of UdpPort::notes()
};

/// Everything that a UdpPort is made from. A plain value.
struct UdpPortOptions {
  LocalAddress local;  ///< address, interface or both: the plane
  Plane plane = 0;     ///< copied into RxPacket::plane

  /// The receiving socket is bound to UDP port base_port + slot (design: several processes share a
  /// host, each with a slot of its own, which is the top 8 bits of its QPNs).
  std::uint16_t base_port = wire::kUdpPort;
  std::uint8_t slot = 0;

  /// Number of paths, 1 .. 4096: each is a socket bound to a source port of its own.
  std::uint16_t paths = 16;
  /// Source port of each path; empty: the kernel chooses. Otherwise one for each of `paths`.
  std::vector<std::uint16_t> source_ports;
  /// IPv6 flow label of each path; empty: derived from the source port. Else one for each path.
  std::vector<std::uint16_t> flow_labels;
  /// Without a value: udp on IPv4, stev on IPv6 if flow labels can be had, else udp.
  std::optional<wire::EvFormat> ev_format;

  std::uint32_t receive_buffer = 8u << 20;  ///< SO_RCVBUF wanted, bytes; the kernel may cap it
  std::uint32_t send_buffer = 1u << 20;     ///< SO_SNDBUF of each path, bytes
  std::uint16_t receive_slots = 16;         ///< datagrams per receive call, 64 KiB each; 1 .. 256
  Offload gso = Offload::automatic;         ///< one call sends a burst
  Offload gro = Offload::automatic;         ///< one datagram received can be a burst

  /// False: the iCRC is sent as 0 and not looked at (both ends must agree). UDP's checksum remains.
  bool icrc = true;
  wire::DscpMap dscp;  ///< to recognise trimmed packets

  FaultSpec faults;                  ///< in force from the start
  std::uint64_t fault_seed = 1;      ///< of the fault injector
  std::uint32_t fault_slots = 2048;  ///< packets that faults can hold back at a time

  /// Throws Error that names the option, its value and what is allowed.
  void check() const {
    const auto reject = [](const char* name, std::size_t value, const char* allowed) {
      throw Error(Errc::invalid_argument, std::string("UDP port: ") + name + " is " +
                                              std::to_string(value) + ", allowed is " + allowed);
    };
    if (paths < 1 || paths > 4096) reject("paths", paths, "1 to 4096");
    if (!source_ports.empty() && source_ports.size() != paths)
      reject("number of source_ports", source_ports.size(), "none or one for each path");
    if (!flow_labels.empty() && flow_labels.size() != paths)
      reject("number of flow_labels", flow_labels.size(), "none or one for each path");
    if (base_port < 1 || base_port + slot > 65535)
      reject("base_port", base_port, "1 to 65535 with the slot added");
    if (receive_slots < 1 || receive_slots > 256)
      reject("receive_slots", receive_slots, "1 to 256");
    if (fault_slots < 1 || fault_slots > 65536) reject("fault_slots", fault_slots, "1 to 65536");
    if (plane >= kMaxPlanes) reject("plane", plane, "0 to 31");
    if (!dscp.valid())
      throw Error(Errc::invalid_argument,
                  "UDP port: DSCP values must be below 64, and those of trimmed packets different "
                  "from all that hosts send");
  }
};

}  // namespace mrc::port
