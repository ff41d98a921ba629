// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::wire {

/// Bytes from the UDP header on that a trimming switch should keep: UDP, BTH, METH, TSETH, so that
/// a NACK can echo the timestamp (mrc-1.0 §1.12).
inline constexpr std::size_t kTrimKeep = sizeof(Udp) + sizeof(Bth) + sizeof(Meth) + sizeof(Tseth);
/// The least that a receiver can use: UDP and BTH.
inline constexpr std::size_t kTrimKeepMin = sizeof(Udp) + sizeof(Bth);

/// Trims a data packet as a switch with a full queue does (mrc-1.0 §1.12): keeps `keep` bytes from
/// the UDP header on (at least kTrimKeepMin), adjusts the inner and outer IP lengths, sets the
/// outermost DSCP and updates the IPv4 checksum. The UDP length is unchanged. Returns the new
/// length, at most the old one, or 0 if locate() rejects the packet, which is then unchanged.
[[nodiscard]] std::size_t trim_packet(MutableBytes packet, std::size_t keep,
                                      std::uint8_t dscp) noexcept;

}  // namespace mrc::inline v0_1::wire
