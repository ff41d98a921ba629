// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/fabric/usid.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::fabric {

/// A fabric as a host needs it (docs/fabric.md): planes, switches, uSIDs, hosts. Plain values,
/// filled and checked by the reader (fabric/fabric_reader.hpp).

using path::Usid;
using path::UsidBits;

/// How switches choose the next hop.
enum class Forwarding : std::uint8_t {
  srv6,  ///< by the uSIDs in the outer destination address (mrc-1.0 §4)
  ecmp,  ///< plain IPv6, by a hash over flow label and UDP source port (mrc-1.0 §3.1)
};

/// A node of one plane, or a host, which is in all of them.
enum class NodeKind : std::uint8_t { host, t0, t1 };

/// "p1t0-2": a switch, as tools call it. `kind` is t0 or t1.
[[nodiscard]] std::string switch_name(Plane plane, NodeKind kind, unsigned number);

/// The numbers that name switches and downlinks. All uSIDs have the plane in the same bits, so a
/// route is moved to another plane by one mask (mrc-1.0 §4.2).
///
/// Each kind is in the range of nodes (path::is_global()), or in that of links (path::is_local()),
/// whose uSIDs are those of one switch: of a T0 its uplinks to the T1s and its downlinks to hosts,
/// of a T1 its links to the T0s (mrc-1.0 §4.1).
struct UsidPlan {
  UsidBits plane{8, 4};      ///< bits of the plane in every uSID
  Usid t0 = 0x1000;          ///< T0 i of plane p: this, with plane and t0_number filled in
  UsidBits t0_number{0, 8};  ///< bits of the number of a T0
  Usid t1 = 0x2000;          ///< T1 j of plane p, likewise
  UsidBits t1_number{0, 8};  ///< bits of the number of a T1
  /// A host's uSID names its T0 and the downlink there. That of a link need not name the T0.
  Usid host = 0x3000;
  UsidBits host_t0{4, 4};   ///< bits of the T0 of a host
  UsidBits downlink{0, 4};  ///< bits of its downlink there

  /// uSID of a T0.
  [[nodiscard]] constexpr Usid of_t0(Plane p, unsigned i) const noexcept {
    return t0_number.set(plane.set(t0, p), i);
  }
  /// uSID of a T1.
  [[nodiscard]] constexpr Usid of_t1(Plane p, unsigned j) const noexcept {
    return t1_number.set(plane.set(t1, p), j);
  }
  /// uSID of the host at a downlink of a T0.
  [[nodiscard]] constexpr Usid of_host(Plane p, unsigned t0_index, unsigned link) const noexcept {
    return downlink.set(host_t0.set(plane.set(host, p), t0_index), link);
  }
};

/// A host and its ports: [p] of each list is its port in plane p.
struct Host {
  std::string name;                        ///< unique in the fabric
  unsigned t0 = 0;                         ///< number of its T0, the same in all planes
  unsigned downlink = 0;                   ///< which downlink of that T0
  std::vector<wire::IpAddress> addresses;  ///< IPv6
  std::vector<std::string> interfaces;     ///< names, such as "p0"
  /// Ethernet addresses of the T0s' ports; empty: the host's kernel knows or finds them.
  std::vector<wire::MacAddress> next_hops;
};

/// One step of a route pattern.
struct PatternStep {
  /// What a step stands for.
  enum class Kind : std::uint8_t {
    source_t0,  ///< "t0": the T0 of the sending host
    t1,         ///< "t1": takes the uplink of the EV
    host_t0,    ///< "host_t0": the T0 of the destination
    host,       ///< "host": the destination's T0 and downlink
    literal,    ///< a uSID written out; the plane is put into it
  };
  Kind kind = Kind::literal;  ///< what the step is
  Usid literal = 0;           ///< the uSID of Kind::literal, in plane 0
};

/// Route pattern for a class of destinations; the first one that names the destination's T0 counts.
struct RoutePattern {
  std::vector<unsigned> t0s;  ///< destinations under these T0s; empty: all
  /// To a host under another T0: 1 .. path::kMaxUsids steps, "host" among them. What follows it is
  /// written out, for the host itself.
  std::vector<PatternStep> remote;
  std::vector<PatternStep> local;  ///< to a host under the same T0
};

/// Paths of one plane that must not be used: those over the parts named, or all of the plane if no
/// part is named.
struct Denied {
  static constexpr unsigned kAny = ~0u;  ///< this part is not named
  Plane plane = 0;                       ///< always named
  unsigned t0 = kAny;                    ///< with t1: the link between the two; alone: the switch
  unsigned t1 = kAny;                    ///< alone: the switch
  unsigned host = kAny;                  ///< index of a host: its port in this plane
};

/// A fabric as described in a file.
struct Description {
  std::string file;                          ///< where it came from, for messages
  std::string name;                          ///< 1 .. 12 letters, digits, '-' or '_'
  Forwarding forwarding = Forwarding::srv6;  ///< how switches find the way
  /// Where packets carry their EV. With SRv6 in the inner header, which switches do not read.
  wire::EvFormat entropy = wire::EvFormat::stev;
  unsigned planes = 1;  ///< 1 .. kMaxPlanes
  unsigned t0 = 1;      ///< T0 switches of each plane
  unsigned t1 = 1;      ///< T1 switches of each plane; uplink u of any T0 leads to T1 u
  std::vector<std::uint32_t> blocks;   ///< [p]: upper 32 bits of plane p's uSID addresses
  UsidPlan usids;                      ///< the address plan
  std::vector<RoutePattern> patterns;  ///< at least one; the last has no t0s
  std::vector<Host> hosts;             ///< at least one
  std::uint32_t mtu = 9216;            ///< bytes of the largest IP packet on the links
  wire::DscpMap dscp;                  ///< traffic classes
  double link_speed = 100.0;           ///< Gb/s of one link
  Duration base_rtt = std::chrono::microseconds(200);  ///< of the idle fabric, hosts included
  std::vector<Denied> denied;                          ///< paths that must not be used

  /// The host of that name, or nullptr.
  [[nodiscard]] const Host* find_host(std::string_view host) const noexcept;
  /// The host with that address in plane p, or nullptr.
  [[nodiscard]] const Host* find_host(Plane p, const wire::IpAddress& address) const noexcept;
  /// /48 prefix of a uSID: block, uSID, zeros (mrc-1.0 §4.1).
  [[nodiscard]] path::Ipv6 usid_prefix(Plane p, Usid usid) const noexcept;
};

/// IPv6 addresses of a fabric as text and back.

/// A numeric IPv6 address; nothing for any other text.
[[nodiscard]] std::optional<wire::IpAddress> parse_ipv6(const std::string& text);

/// Six bytes in hexadecimal, two digits each, with ':' between them. Nothing for other texts, for
/// the all-zero address and for multicast addresses.
[[nodiscard]] std::optional<wire::MacAddress> parse_mac(std::string_view text);

/// "02:00:00:00:00:0a".
[[nodiscard]] std::string format_mac(const wire::MacAddress& mac);

/// "fd00:1::2".
[[nodiscard]] std::string format_ipv6(const wire::IpAddress& address);

/// True for a unicast address that can be reached over a router: neither multicast (ff00::/8) nor
/// link-local (fe80::/10) nor in ::/32, where ::, ::1 and the mapped IPv4 addresses are.
[[nodiscard]] constexpr bool is_routable(const wire::IpAddress& address) noexcept {
  const bool link_local = address[0] == 0xFE && (address[1] & 0xC0) == 0x80;
  return address[0] != 0xFF && !link_local && path::usid_block(address) != 0;
}

/// The upper 32 bits of a prefix such as "fcbb::/32". Nothing for any other length, or when a lower
/// bit is set.
[[nodiscard]] std::optional<std::uint32_t> parse_block(const std::string& text);

/// "fcbb::/32".
[[nodiscard]] std::string format_block(std::uint32_t block);

}  // namespace mrc::inline v0_1::fabric
