// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/fabric/usid.hpp"
#include "mrc/path/path_entry.hpp"

/// All paths between two hosts of a fabric (mrc-1.0 §4.2). Set-up only.
namespace mrc::inline v0_1::fabric {

/// A path from one host to another.
struct Path {
  Plane plane = 0;           ///< the plane it belongs to
  std::uint16_t uplink = 0;  ///< of the sender's T0; with ECMP only a number inside the plane
  Ev ev{};                   ///< its entropy value (mrc-1.0 §3.1)
  path::UsidRoute route;     ///< empty with ECMP
  bool denied = false;       ///< the description's "deny" names a part of it
};

/// With ECMP: EVs of a plane by default.
inline constexpr unsigned kEcmpPaths = 16;
/// With ECMP: most EVs of a plane.
inline constexpr unsigned kMaxEcmpPaths = 1024;
/// With ECMP: UDP source port of the first EV. Ports from 0xC000 on are free for such use (RFC 6335
/// §6).
inline constexpr std::uint16_t kEcmpFirstPort = 0xC000;
/// With ECMP: UDP source ports from kEcmpFirstPort on.
inline constexpr unsigned kEcmpPorts = 0x10000 - kEcmpFirstPort;
static_assert(kMaxPlanes * kMaxEcmpPaths <= path::kMaxPaths);

/// The EV of a path through a plane and an uplink: the plane above as many bits as the uplinks
/// need, plus one, since its low half is the UDP source port ([O-17]), which must not be 0. 1 ..
/// 2^15.
[[nodiscard]] constexpr Ev path_ev(const Description& d, Plane plane, unsigned uplink) noexcept {
  return Ev{(std::uint32_t{plane} << std::bit_width(d.t1 - 1) | uplink) + 1};
}
/// The uplink of a path by the low 16 bits of its EV.
[[nodiscard]] constexpr unsigned uplink_of(const Description& d, Ev ev) noexcept {
  return ((value(ev) & 0xFFFF) - 1) & ((1u << std::bit_width(d.t1 - 1)) - 1);
}

/// A host or a switch on a path.
struct Node {
  NodeKind kind = NodeKind::host;  ///< host or switch
  unsigned number = 0;             ///< among the hosts, or the T0s or T1s of the plane

  /// Equal in both fields.
  friend constexpr bool operator==(const Node&, const Node&) = default;
};

/// Where a uSID of a plane leads (mrc-1.0 §4.1): a global one to its node, a local one over a link
/// of the node `at` that the packet has come to. Nothing if the description has no such node or
/// link, or if `at`, which decides, is not known.
[[nodiscard]] std::optional<Node> next_node(const Description& d, Plane plane,
                                            const std::optional<Node>& at, Usid usid);

/// Every path of a plane from a host to another, by uplink. To a host under the same T0 there is
/// one, unless its template says otherwise. With ECMP the paths are `ecmp_count` EVs.
///
/// The hosts must be of `d`, and `d` checked as by fabric::read(). Throws mrc::Error.
[[nodiscard]] std::vector<Path> plane_paths(const Description& d, Plane plane, const Host& from,
                                            const Host& to, unsigned ecmp_count = kEcmpPaths);

/// The same for all planes. The planes alternate in the list, so its first n paths are spread
/// evenly over them.
[[nodiscard]] std::vector<Path> paths(const Description& d, const Host& from, const Host& to,
                                      unsigned ecmp_per_plane = kEcmpPaths);

/// Whether packets on a route from one host to another use that part of their plane, whose uSIDs
/// the route has. An empty route: with ECMP, where switches choose the T1.
[[nodiscard]] bool leads_over(const Description& d, const Denied& part, const Host& from,
                              const Host& to, const path::UsidRoute& route);

/// The uSIDs that routes to a host have behind its own, for the host itself; none if its template
/// has none.
[[nodiscard]] std::vector<Usid> usids_behind(const Description& d, Plane plane, const Host& from,
                                             const Host& to);

/// The largest encapsulation that the description's routes need.
[[nodiscard]] wire::Encapsulation encapsulation_of(const Description& d);

}  // namespace mrc::inline v0_1::fabric
