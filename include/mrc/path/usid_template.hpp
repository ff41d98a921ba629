// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/expand.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/path/usid.hpp"

namespace mrc::inline v0_1::path {

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

  /// The template for one destination as fields of the API, for expand(), with a block in front of
  /// each carrier. Such an EV is longer than ev(), since each uSID has its own plane bits. Set-up
  /// only; throws mrc::Error.
  [[nodiscard]] std::vector<EvField> fields(std::uint32_t downlink_number) const;
  /// The format that goes with fields(): 32 bits per block, 16 per uSID.
  [[nodiscard]] EvFormatProfile format() const;
};

}  // namespace mrc::inline v0_1::path
