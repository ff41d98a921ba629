// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::detail {

/// Packet ports of a host of a fabric whose description (docs/fabric.md) option fabric names, and
/// peers that are reached by source routes. Devices also answer EV probes of all hosts of the
/// fabric. Reads the description. Throws mrc::Error that names file, line and remedy.
[[nodiscard]] std::unique_ptr<PlaneKind> make_packet_kind(const Config& config);

}  // namespace mrc::inline v0_1::detail

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

namespace mrc::inline v0_1::detail {

/// What a fabric description (docs/fabric.md) means for a device's configuration, ports and paths.
/// Set-up only.

/// The description that option fabric names. Throws mrc::Error.
[[nodiscard]] fabric::Description read_fabric(const Config& config);

/// The configuration in force: where an option is at its default, the description decides.
[[nodiscard]] Config in_force(Config config, const fabric::Description& fabric);

/// Each source-routed path has two EVs, the second one a backup with a number above the route's 16
/// bits. When a path of a plane fails, the plane's other paths take its place with their second
/// EVs, so the plane keeps its share; a path carries at most twice its normal load.
inline constexpr std::uint32_t kSecondEv = 1u << 16;

/// The EVs of a plane towards a peer.
struct FabricSpecs {
  std::vector<path::PathSpec> specs;  ///< the first `active` carry data from the start
  std::size_t active = 0;             ///< the rest are backups
};

/// The EVs of `paths` that are not denied. `routed`: these have routes, so they get second EVs as
/// long as those of all `planes` planes of the peer fit into a path set.
[[nodiscard]] FabricSpecs specs_of(const std::vector<fabric::Path>& paths, bool routed,
                                   unsigned planes);

/// The outer headers of paths, [port_path]; none for paths without.
[[nodiscard]] std::vector<port::PacketRoute> routes_of(const std::vector<fabric::Path>& paths);

/// A port's paths, whatever the peer: the uplinks of its T0, or with ECMP `ecmp_paths` EVs.
[[nodiscard]] std::vector<port::PortPath> paths_of(const fabric::Description& fabric,
                                                   const fabric::Host& self, Plane plane,
                                                   unsigned ecmp_paths);

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::port {

/// How planes on RDMA devices are named, for packet ports that send by them, too. Needs no headers
/// of libibverbs. Set-up calls; any thread.

/// A plane as it is configured: `NAME`, `NAME:PORT`, `NAME\@ADDRESS` or `NAME:PORT\@ADDRESS`.
struct VerbsPlaneName {
  std::string device;     ///< as `ibv_devices` lists it
  std::uint8_t port = 0;  ///< of the device, from 1 on; 0: the first usable one
  IpAddress address{};    ///< the GID to use; all zero: the best one

  /// Equal in all fields.
  friend bool operator==(const VerbsPlaneName&, const VerbsPlaneName&) = default;
};

/// Reads one element of option `verbs`. Throws mrc::Error that says what is wrong.
[[nodiscard]] VerbsPlaneName parse_verbs_plane(std::string_view text);
/// Reads option `verbs`, which is neither empty nor `all`: names separated by commas. Throws
/// mrc::Error.
[[nodiscard]] std::vector<VerbsPlaneName> parse_verbs_planes(std::string_view list);

/// The port of an RDMA device that an interface belongs to, as the kernel describes it in `folder`.
/// Throws mrc::Error if it belongs to none.
[[nodiscard]] VerbsPlaneName verbs_port_of_interface(
    const std::string& interface, const std::string& folder = "/sys/class/infiniband");

}  // namespace mrc::inline v0_1::port
