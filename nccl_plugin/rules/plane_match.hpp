// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "nccl_plugin/settings/interfaces.hpp"

/// Whether the planes of two processes fit: plane i of one talks to plane i of the other.
namespace mrc_nccl {

/// What a process tells its peers of a plane. A plain value.
struct PlaneOffer {
  std::string interface;         ///< its name; empty: not known
  mrc::port::IpAddress ip{};     ///< its address
  std::uint8_t prefix_bits = 0;  ///< of the subnet, out of 128; 0: not known
  std::uint32_t mtu = 0;         ///< of the interface, in bytes; 0: not known, or it is no link

  friend bool operator==(const PlaneOffer&, const PlaneOffer&) = default;
};

/// Of planes with these addresses. What no interface tells is not known.
[[nodiscard]] std::vector<PlaneOffer> plane_offers(
    const std::vector<mrc::port::IpAddress>& addresses,
    const std::vector<InterfaceFacts>& interfaces);

/// One side of a connection.
struct PlaneSide {
  std::string name;                ///< as messages call it: "here", "host7"
  std::vector<PlaneOffer> planes;  ///< in their order
  std::uint32_t packet_bytes = 0;  ///< payload of its largest packets
};

/// What does not fit, in words that name cause and remedy.
struct PlaneMatch {
  std::string error;                  ///< the two can't be connected; empty: they can
  std::vector<std::string> warnings;  ///< they can, with less than they have
};

[[nodiscard]] PlaneMatch match_planes(const PlaneSide& mine, const PlaneSide& theirs);

}  // namespace mrc_nccl
