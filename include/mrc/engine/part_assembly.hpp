// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Puts data packets together that arrive in parts (wire/transport.hpp).
///
/// A packet has one place, given by its queue pair and PSN. Parts of two transmissions of a packet
/// may be mixed: both have the same payload. The next packet that has the same place takes it from
/// one that is not complete; then the rest of that one is lost, and it is sent again. Parts of an
/// earlier connection, or so old that PSNs may have come round, are never mixed with new ones.
///
/// Allocates in the constructor only; memory that is never used is never touched. One thread.
class PartAssembly {
 public:
  /// Room for `places` incomplete packets of up to `payload` bytes; with 0 no part is accepted.
  PartAssembly(std::uint32_t places, std::uint32_t payload);

  /// Adds a part that belongs to the connection: the caller has checked its tag, and wire::check().
  /// Returns the whole packet if this was the last one that it lacked; its bytes are valid until
  /// the next call. It is checked no further than the parts are. `malformed` is set if the part
  /// fits no packet.
  std::optional<wire::RxPacket> add(Time now, const wire::RxPacket& part, bool& malformed) noexcept;

  /// Parts that arrive further apart do not belong together: within this time PSNs do not come
  /// round, at any speed that sockets reach.
  static constexpr Duration kLifetime = std::chrono::seconds(1);

 private:
  struct Place {
    Time newest{};            ///< when the last part arrived
    std::uint32_t check = 0;  ///< RxPacket::check: of one connection only
    Qpn qpn{};
    Psn psn;
    std::uint32_t length = 0;  ///< payload of the packet, bytes; 0: free
    std::uint32_t have = 0;    ///< a bit for each part
    std::uint8_t opcode = 0;
    bool congested = false;  ///< a part was marked CE
  };

  std::uint32_t payload_;  ///< most bytes
  std::uint32_t stride_;   ///< bytes between the buffers of two places
  std::vector<Place> places_;
  std::unique_ptr<std::uint8_t[]> buffers_;
};

}  // namespace mrc::inline v0_1::engine
