// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "mrc_ctl/devices.hpp"

/// `mrc_ctl check`: whether hosts fit together, before a job.
namespace mrc::check_tool {

using ctl_tool::Json;

/// What the checkers of two versions must have in common.
inline constexpr int kCheckProtocol = 3;
/// Source ports per plane, most.
inline constexpr unsigned kMostPaths = 64;

/// A plane as a device would open it.
struct PlaneFacts {
  port::IpAddress address{};
  std::string interface;            ///< that has the address
  std::uint32_t interface_mtu = 0;  ///< bytes of an IP packet; if it is no link, of those that are
  bool running = false;             ///< the interface is up, and has a carrier
  bool on_link = true;              ///< the interface is one that packets leave by
  /// Another plane has an address of its subnet, and the interface answers ARP for that, too, or
  /// drops packets from addresses whose route leads by the other's.
  bool answers_for_all = false, strict_source = false;
  std::uint16_t udp_port = 0;       ///< at which a device with slot 0 receives
  std::uint16_t probe_port = 0;     ///< at which probes arrive: udp_port, if that is free
  std::string in_use;               ///< who has udp_port; empty: nobody
  std::vector<std::string> leaves;  ///< [other's plane] interface by which packets to it leave
};

/// Its address, with the interface if it is link-local.
[[nodiscard]] std::string address_text(const PlaneFacts& plane);

/// What a host says of itself.
struct HostFacts {
  std::string host, version;
  unsigned protocol = 0;    ///< of connections between devices
  std::string kind;         ///< of planes: "udp", "fabric" or "rdma"
  std::string fabric;       ///< mark of the description's text; empty: none
  std::string fabric_host;  ///< what the description calls this host; empty: nothing
  std::uint32_t mtu = 0;    ///< payload of the largest packet of a device here; 0: not known
  unsigned paths = 0;       ///< per plane, of a device
  unsigned probed = 0;      ///< source ports per plane that the check uses
  std::uint64_t receive_wanted = 0, receive_got = 0;  ///< bytes of a socket's buffer
  std::uint64_t send_wanted = 0, send_got = 0;
  std::uint64_t rmem_max = 0, wmem_max = 0;  ///< net.core.*; 0: can't be read
  bool gso_wanted = true, gso = false;       ///< segmentation offload
  bool gro_wanted = true, gro = false;       ///< the same when receiving
  std::vector<PlaneFacts> planes;
};

/// Bytes of IP and UDP header in front of a packet of that plane.
[[nodiscard]] constexpr std::uint32_t headers_of(const PlaneFacts& plane) noexcept {
  return port::is_v4(plane.address) ? 28 : 48;
}

[[nodiscard]] Json to_json(const HostFacts& facts);
/// What another host says, which may be anything. Throws std::runtime_error that names the field.
[[nodiscard]] HostFacts facts_from(const Json& json);

}  // namespace mrc::check_tool
