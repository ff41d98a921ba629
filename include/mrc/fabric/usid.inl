// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "mrc/fabric/usid.hpp"

namespace mrc::inline v0_1::path {

Errc UsidTemplate::check() const noexcept {
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

Result<UsidRoute> UsidTemplate::route(Plane plane_number, std::uint32_t uplink_number,
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

Result<UsidRoute> UsidTemplate::route(Ev entropy, std::uint32_t downlink_number) const noexcept {
  if (!uplink.valid()) return Errc::invalid_argument;
  const std::uint32_t plane_number = value(entropy) >> uplink.width;
  if (plane_number >= kMaxPlanes) return Errc::invalid_argument;
  return route(static_cast<Plane>(plane_number), value(entropy) & (uplink.limit() - 1),
               downlink_number);
}

Result<UsidRoute> UsidTemplate::local_route(Plane plane_number,
                                            std::uint32_t downlink_number) const noexcept {
  if (const Errc e = check(); e != Errc::ok) return e;
  if (plane_number >= plane.limit() || downlink_number >= downlink.limit())
    return Errc::invalid_argument;
  const Usid last = downlink.set(plane.set(usids.back(), plane_number), downlink_number);
  return make_route(block, std::span<const Usid>(&last, 1));
}

std::vector<PathSpec> UsidTemplate::paths(unsigned planes, unsigned uplinks) const {
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

}  // namespace mrc::inline v0_1::path
