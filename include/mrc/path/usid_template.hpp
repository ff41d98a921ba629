// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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

inline Errc UsidTemplate::check() const noexcept {
  if (usids.empty()) return Errc::invalid_argument;
  if (usids.size() > kMaxUsids) return Errc::no_resources;
  if (!plane.valid() || !uplink.valid() || !downlink.valid()) return Errc::invalid_argument;
  if (uplink.width > 0 && uplink_usid >= usids.size()) return Errc::invalid_argument;
  if ((plane.mask() & (uplink.mask() | downlink.mask())) != 0) return Errc::invalid_argument;
  if (uplink_usid == usids.size() - 1 && (uplink.mask() & downlink.mask()) != 0)
    return Errc::invalid_argument;
  for (std::size_t i = 0; i < usids.size(); ++i) {
    Usid constant = static_cast<Usid>(usids[i] & ~plane.mask());
    if (i == uplink_usid) constant = static_cast<Usid>(constant & ~uplink.mask());
    if (i == usids.size() - 1) constant = static_cast<Usid>(constant & ~downlink.mask());
    if (constant == 0) return Errc::invalid_argument;
  }
  return Errc::ok;
}

inline Result<UsidRoute> UsidTemplate::route(Plane plane_number, std::uint32_t uplink_number,
                                             std::uint32_t downlink_number) const noexcept {
  if (const Errc e = check(); e != Errc::ok) return e;
  if (plane_number >= plane.limit() || uplink_number >= uplink.limit() ||
      downlink_number >= downlink.limit())
    return Errc::invalid_argument;
  std::array<Usid, kMaxUsids> out{};
  for (std::size_t i = 0; i < usids.size(); ++i) {
    out[i] = plane.set(usids[i], plane_number);
    if (i == uplink_usid) out[i] = uplink.set(out[i], uplink_number);
  }
  out[usids.size() - 1] = downlink.set(out[usids.size() - 1], downlink_number);
  return make_route(block, std::span<const Usid>(out).first(usids.size()));
}

inline Result<UsidRoute> UsidTemplate::route(Ev entropy,
                                             std::uint32_t downlink_number) const noexcept {
  if (!uplink.valid()) return Errc::invalid_argument;
  const std::uint32_t plane_number = value(entropy) >> uplink.width;
  if (plane_number >= kMaxPlanes) return Errc::invalid_argument;
  return route(static_cast<Plane>(plane_number), value(entropy) & (uplink.limit() - 1),
               downlink_number);
}

inline Result<UsidRoute> UsidTemplate::local_route(Plane plane_number,
                                                   std::uint32_t downlink_number) const noexcept {
  if (const Errc e = check(); e != Errc::ok) return e;
  if (plane_number >= plane.limit() || downlink_number >= downlink.limit())
    return Errc::invalid_argument;
  const Usid last = downlink.set(plane.set(usids.back(), plane_number), downlink_number);
  return make_route(block, std::span<const Usid>(&last, 1));
}

inline std::vector<PathSpec> UsidTemplate::paths(unsigned planes, unsigned uplinks) const {
  if (check() != Errc::ok) throw Error(check(), "uSID template is not valid");
  if (planes == 0 || planes > kMaxPlanes || planes > plane.limit())
    throw Error(Errc::invalid_argument,
                "uSID template: planes is " + std::to_string(planes) + ", must be 1 to " +
                    std::to_string(std::min<std::uint32_t>(kMaxPlanes, plane.limit())));
  if (uplinks == 0 || uplinks > uplink.limit())
    throw Error(Errc::invalid_argument, "uSID template: uplinks is " + std::to_string(uplinks) +
                                            ", must be 1 to " + std::to_string(uplink.limit()));
  std::vector<PathSpec> specs;
  for (unsigned u = 0; u < uplinks; ++u)
    for (unsigned p = 0; p < planes; ++p)
      specs.push_back(
          {ev(static_cast<Plane>(p), u), static_cast<Plane>(p), static_cast<std::uint16_t>(u)});
  return specs;
}

inline std::vector<EvField> UsidTemplate::fields(std::uint32_t downlink_number) const {
  if (check() != Errc::ok) throw Error(check(), "uSID template is not valid");
  if (downlink_number >= downlink.limit())
    throw Error(Errc::invalid_argument, "uSID template: downlink is " +
                                            std::to_string(downlink_number) + ", must be below " +
                                            std::to_string(downlink.limit()));
  std::vector<EvField> out;
  for (std::size_t i = 0; i < usids.size(); ++i) {
    if (i % kUsidsPerCarrier == 0) out.push_back({32, block, 0, 0, 0});
    EvField f{16, usids[i], 0, 0, plane.mask()};
    if (i == uplink_usid) f.mask |= uplink.mask();
    if (i == usids.size() - 1)
      f.init_val = downlink.set(static_cast<Usid>(f.init_val), downlink_number);
    f.max_val = low_mask(ev_bits(f));
    out.push_back(f);
  }
  return out;
}

inline EvFormatProfile UsidTemplate::format() const {
  EvFormatProfile out{EvMode::srv6, usids.size() > kUsidsPerCarrier, {}};
  for (std::size_t i = 0; i < usids.size(); ++i) {
    if (i % kUsidsPerCarrier == 0) out.fields.push_back({32});
    out.fields.push_back({16});
  }
  return out;
}

}  // namespace mrc::inline v0_1::path
