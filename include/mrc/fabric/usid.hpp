// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// SRv6 micro segments in the F3216 form: a 32-bit block and up to six 16-bit uSIDs in one IPv6
/// destination address (mrc-1.0 §4.1, §4.3).

/// An IPv6 address in network byte order.
using Ipv6 = std::array<std::uint8_t, 16>;
/// A micro segment identifier; 0 ends a carrier.
using Usid = std::uint16_t;

/// uSIDs in one address.
inline constexpr std::size_t kUsidsPerCarrier = 6;
/// Two carriers: the destination address and the single segment that the API allows in an SRH.
inline constexpr std::size_t kMaxUsids = 2 * kUsidsPerCarrier;

/// Whether the uSID is global, naming a node (uN).
[[nodiscard]] constexpr bool is_global(Usid usid) noexcept {
  return usid >= 1 && usid <= 0xDFFF;
}
/// Whether the uSID is local, naming an interface of a node (uA).
[[nodiscard]] constexpr bool is_local(Usid usid) noexcept {
  return usid >= 0xE000;
}

/// The upper 32 bits of a carrier.
[[nodiscard]] constexpr std::uint32_t usid_block(const Ipv6& address) noexcept {
  return std::uint32_t{address[0]} << 24 | std::uint32_t{address[1]} << 16 |
         std::uint32_t{address[2]} << 8 | address[3];
}
/// The uSID at place `i` < kUsidsPerCarrier; place 0 is the active one.
[[nodiscard]] constexpr Usid usid_at(const Ipv6& address, std::size_t i) noexcept {
  return static_cast<Usid>(address[4 + 2 * i] << 8 | address[5 + 2 * i]);
}

/// A carrier: block, uSIDs, zeros. At most kUsidsPerCarrier uSIDs.
[[nodiscard]] constexpr Ipv6 make_carrier(std::uint32_t block,
                                          std::span<const Usid> usids) noexcept {
  Ipv6 address{static_cast<std::uint8_t>(block >> 24), static_cast<std::uint8_t>(block >> 16),
               static_cast<std::uint8_t>(block >> 8), static_cast<std::uint8_t>(block)};
  for (std::size_t i = 0; i < usids.size() && i < kUsidsPerCarrier; ++i) {
    address[4 + 2 * i] = static_cast<std::uint8_t>(usids[i] >> 8);
    address[5 + 2 * i] = static_cast<std::uint8_t>(usids[i]);
  }
  return address;
}

/// What a node does to the destination address when it owns the active uSID: shifts everything
/// after the block left by 16 bits and fills with zeros.
[[nodiscard]] constexpr Ipv6 shift(const Ipv6& address) noexcept {
  Ipv6 out{};
  for (std::size_t i = 0; i < 4; ++i) out[i] = address[i];
  for (std::size_t i = 4; i < 14; ++i) out[i] = address[i + 2];
  return out;
}

/// A source route: the outer destination address and, for more than six uSIDs, the segment of an
/// SRH. Also describes the state at any hop.
struct UsidRoute {
  Ipv6 destination{};              ///< outer destination address: the current carrier
  Ipv6 segment{};                  ///< second carrier, if has_srh
  bool has_srh = false;            ///< the route needs an SRH
  std::uint8_t segments_left = 0;  ///< field of the SRH: 1 until `segment` is the destination

  /// Equal in all fields.
  friend constexpr bool operator==(const UsidRoute&, const UsidRoute&) = default;
};

/// The route over these uSIDs. invalid_argument: no uSID, or a uSID of 0 (it would end the carrier
/// early). no_resources: more than kMaxUsids.
[[nodiscard]] inline Result<UsidRoute> make_route(std::uint32_t block,
                                                  std::span<const Usid> usids) noexcept {
  if (usids.empty()) return Errc::invalid_argument;
  if (usids.size() > kMaxUsids) return Errc::no_resources;
  for (const Usid usid : usids)
    if (usid == 0) return Errc::invalid_argument;
  UsidRoute route;
  if (usids.size() <= kUsidsPerCarrier) {
    route.destination = make_carrier(block, usids);
    return route;
  }
  route.destination = make_carrier(block, usids.first(kUsidsPerCarrier));
  route.segment = make_carrier(block, usids.subspan(kUsidsPerCarrier));
  route.has_srh = true;
  route.segments_left = 1;
  return route;
}

/// Result of processing at a node that owns the active uSID.
enum class UsidStep : std::uint8_t {
  shifted,  ///< the next uSID of the carrier is active
  segment,  ///< the carrier was used up: the SRH's segment is the new destination
  last,     ///< the last uSID: deliver the packet, encapsulated or not; the route is unchanged
};

/// Processing of a route at one node (uN, or uA before sending out of its interface).
constexpr UsidStep step(UsidRoute& route) noexcept {
  const Ipv6 next = shift(route.destination);
  if (usid_at(next, 0) != 0) {
    route.destination = next;
    return UsidStep::shifted;
  }
  if (route.segments_left == 0) return UsidStep::last;
  --route.segments_left;
  route.destination = route.segment;
  return UsidStep::segment;
}

/// A bit field inside a uSID.
struct UsidBits {
  std::uint8_t shift = 0;  ///< position of the lowest bit
  std::uint8_t width = 0;  ///< bits; 0: the field is absent and its only value is 0

  /// Whether the field lies within a uSID.
  [[nodiscard]] constexpr bool valid() const noexcept { return shift + width <= 16; }
  /// Number of values of the field.
  [[nodiscard]] constexpr std::uint32_t limit() const noexcept { return 1u << width; }
  /// The bits of the field.
  [[nodiscard]] constexpr Usid mask() const noexcept {
    return static_cast<Usid>((limit() - 1) << shift);
  }
  /// The field's value in `usid`.
  [[nodiscard]] constexpr unsigned get(Usid usid) const noexcept {
    return static_cast<unsigned>((usid & mask()) >> shift);
  }
  /// `usid` with this field set to `v`.
  [[nodiscard]] constexpr Usid set(Usid usid, std::uint32_t v) const noexcept {
    return static_cast<Usid>((usid & ~mask()) | (v << shift & mask()));
  }
};

/// One route pattern for a class of destinations, for instance a row of racks (mrc-1.0 §4.2). The
/// last uSID names the destination's T0 and its downlink, so that no node looks up the inner
/// address. The template, a destination's downlink number and an EV determine the outer destination
/// address.
///
/// An EV here is plane << uplink.width | uplink: all that varies per packet.
struct UsidTemplate {
  std::uint32_t block = 0;      ///< upper 32 bits of all addresses
  std::vector<Usid> usids;      ///< the pattern, 1 .. kMaxUsids: T0, T1, (..,) destination
  UsidBits plane;               ///< in every uSID
  UsidBits uplink;              ///< in the T1 uSID: uplink u of a T0 leads to T1 u
  std::size_t uplink_usid = 1;  ///< index of the T1's uSID
  UsidBits downlink;            ///< in the last uSID

  /// Validates the template. invalid_argument: overlapping fields, fields beyond 16 bits, or uSIDs
  /// that can become 0. no_resources: more than kMaxUsids uSIDs.
  [[nodiscard]] Errc check() const noexcept;

  /// The route for a plane, an uplink and a destination. invalid_argument: invalid template, or a
  /// number that exceeds its field.
  [[nodiscard]] Result<UsidRoute> route(Plane plane_number, std::uint32_t uplink_number,
                                        std::uint32_t downlink_number) const noexcept;
  /// The route for an EV (plane and uplink) and a destination.
  [[nodiscard]] Result<UsidRoute> route(Ev entropy, std::uint32_t downlink_number) const noexcept;

  /// The route to a host on the same T0: only the destination's uSID, without a spine.
  [[nodiscard]] Result<UsidRoute> local_route(Plane plane_number,
                                              std::uint32_t downlink_number) const noexcept;

  /// The EV of a plane and an uplink.
  [[nodiscard]] Ev ev(Plane plane_number, std::uint32_t uplink_number) const noexcept {
    return Ev{std::uint32_t{plane_number} << uplink.width | uplink_number};
  }

  /// All paths over planes 0 .. planes-1 and uplinks 0 .. uplinks-1, planes alternating: a universe
  /// for a PathSet or an explicit EvProfile. port_path is the uplink. Throws mrc::Error.
  [[nodiscard]] std::vector<PathSpec> paths(unsigned planes, unsigned uplinks) const;
};

}  // namespace mrc::inline v0_1::path
