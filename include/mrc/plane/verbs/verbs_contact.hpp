// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::port {

/// What peers must know of a verbs port beside its address: ConnectionInfo::port_data of its plane.
/// A secret between the two sides, as the rest of a ConnectionInfo.
struct VerbsContact {
  std::uint64_t token = 0;          ///< random: who names it was told it
  std::uint32_t qkey = 0;           ///< of the UD queue pairs
  std::uint16_t path_mtu = 0;       ///< Capabilities::max_packet of the port
  bool placement = false;           ///< its device can place payload (UC)
  std::vector<std::uint32_t> qpns;  ///< of its UD queue pairs, 1 .. 64

  /// Equal in all fields.
  friend bool operator==(const VerbsContact&, const VerbsContact&) = default;
};

/// The bytes for the peer.
[[nodiscard]] std::vector<std::uint8_t> encode(const VerbsContact& contact);
/// Reads what a peer has encoded. Any bytes are safe: throws mrc::Error (bad_message) that says
/// what is wrong.
[[nodiscard]] VerbsContact decode_verbs_contact(Bytes data);

}  // namespace mrc::inline v0_1::port
