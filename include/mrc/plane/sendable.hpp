// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::port {

/// Most payload SGEs of a packet: a message has UIO_MAXIOV (1024) buffers, of which header and
/// trailer take one each.
inline constexpr std::size_t kMaxSges = 1024 - 2;

/// Whether a port that can carry transport packets of `max_packet` bytes can send this one.
[[nodiscard]] inline bool sendable(const wire::TxPacket& p, std::uint32_t max_packet) noexcept {
  return p.header_length >= sizeof(wire::Bth) && p.header_length <= wire::kMaxTransportHeader &&
         p.pad <= wire::kMaxPad && p.sge_count <= kMaxSges && p.transport_length() <= max_packet;
}

}  // namespace mrc::inline v0_1::port
