// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/wire/packet_layout.hpp"
#include "mrc/wire/packet_trim.hpp"

namespace mrc::inline v0_1::wire {

std::size_t trim_packet(MutableBytes packet, std::size_t keep, std::uint8_t dscp) noexcept {
  PacketLayout at;
  if (locate(packet, at) != PacketError::none) return 0;
  const std::size_t kept = std::min(std::max(keep, kTrimKeepMin), at.end - at.udp);
  const std::size_t end = at.udp + kept;
  if (at.ip_version == 4) {
    Ipv4& ip = *reinterpret_cast<Ipv4*>(packet.data());
    ip.total_length = static_cast<std::uint16_t>(end);
    ip.set_dscp(dscp);
    ip.checksum = 0;
    ip.checksum = ipv4_checksum(packet.first(at.udp));
    return end;
  }
  Ipv6& inner = *reinterpret_cast<Ipv6*>(packet.data() + at.ip);
  inner.payload_length = static_cast<std::uint16_t>(kept);
  Ipv6& outer = *reinterpret_cast<Ipv6*>(packet.data());
  outer.payload_length = static_cast<std::uint16_t>(end - sizeof(Ipv6));
  outer.set_dscp(dscp);
  return end;
}

}  // namespace mrc::inline v0_1::wire
