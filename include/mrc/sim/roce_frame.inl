// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "mrc/sim/baseline/roce_frame.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::sim::baseline {

RoceError parse_roce_frame(Bytes l3, RoceFrame& out) noexcept {
  out = {};
  if (l3.empty()) return RoceError::too_short;
  std::size_t at = 0, after_ip = 0;  // start of UDP, and bytes from there by the IP length
  if ((l3[0] >> 4) == 6) {
    at = sizeof(wire::Ipv6);
    if (l3.size() < at) return RoceError::too_short;
    const auto& ip = wire::view_as<wire::Ipv6>(l3);
    if (ip.next_header != wire::kNextUdp) return RoceError::bad_envelope;
    out.source = ip.source;
    out.destination = ip.destination;
    out.ecn = ip.ecn();
    after_ip = ip.payload_length;
  } else if ((l3[0] >> 4) == 4) {
    if (l3.size() < sizeof(wire::Ipv4)) return RoceError::too_short;
    const auto& ip = wire::view_as<wire::Ipv4>(l3);
    at = ip.header_length();
    if (at < sizeof(wire::Ipv4) || ip.total_length < at || ip.protocol != wire::kNextUdp ||
        (ip.flags_fragment & wire::Ipv4::kFragmentMask) != 0)
      return RoceError::bad_envelope;
    out.source = wire::map_ipv4(ip.source);
    out.destination = wire::map_ipv4(ip.destination);
    out.ecn = ip.ecn();
    after_ip = ip.total_length - at;
  } else {
    return RoceError::bad_envelope;
  }
  if (l3.size() < at + sizeof(wire::Udp)) return RoceError::too_short;
  const auto& udp = wire::view_as<wire::Udp>(l3.subspan(at));
  if (udp.destination_port != wire::kUdpPort || udp.length != after_ip ||
      after_ip < sizeof(wire::Udp))
    return RoceError::bad_envelope;
  out.source_port = udp.source_port;
  out.size = at + after_ip;
  if (l3.size() > out.size) l3 = l3.first(out.size);  // padding of the link
  return parse_roce(l3.subspan(at + sizeof(wire::Udp)), after_ip - sizeof(wire::Udp), out.header);
}

}  // namespace mrc::inline v0_1::sim::baseline
