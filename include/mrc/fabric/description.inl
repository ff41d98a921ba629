// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "mrc/fabric/description.hpp"

namespace mrc::inline v0_1::fabric {

std::string switch_name(Plane plane, NodeKind kind, unsigned number) {
  return 'p' + std::to_string(plane) + (kind == NodeKind::t0 ? "t0-" : "t1-") +
         std::to_string(number);
}

const Host* Description::find_host(std::string_view host) const noexcept {
  for (const Host& h : hosts)
    if (h.name == host) return &h;
  return nullptr;
}

const Host* Description::find_host(Plane p, const wire::IpAddress& address) const noexcept {
  for (const Host& h : hosts)
    if (p < h.addresses.size() && h.addresses[p] == address) return &h;
  return nullptr;
}

path::Ipv6 Description::usid_prefix(Plane p, Usid usid) const noexcept {
  return path::make_carrier(blocks[p], std::span<const Usid>(&usid, 1));
}

}  // namespace mrc::inline v0_1::fabric
