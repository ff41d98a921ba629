// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/plane/receive_check.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

MRC_DECL void ReceiveCheck::pass(const RawPacket& raw, RxBurst& rx, PortStats& stats) noexcept {
  wire::RxPacket packet = raw.facts;
  const bool trimmed = packet.trim != wire::Trim::none;  // then there is no iCRC
  const std::size_t tail = trimmed ? 0 : wire::kIcrcSize;
  if (raw.bytes.size() < sizeof(wire::Bth) + tail) {
    ++stats.rx_malformed;
    return;
  }
  packet.bytes = Bytes(raw.bytes).first(raw.bytes.size() - tail);
  if (icrc_ && !trimmed) packet.check = check_of(raw, packet);
  ++stats.rx_packets;
  stats.rx_bytes += raw.bytes.size();
  if (wire::has_origin(wire::view_as<wire::Bth>(packet.bytes).opcode())) [[unlikely]]
    return rx.push(packet, {raw.from, local_, raw.flow_label, raw.traffic_class, 0});
  rx.push(packet);
}

MRC_DECL std::uint32_t ReceiveCheck::check_of(const RawPacket& raw,
                                              const wire::RxPacket& packet) noexcept {
  Source& source = sources_[packet.source % sources_.size()];
  if (source.tag != packet.source || source.ip != raw.from || source.to_port != raw.to_port) {
    source.ip = raw.from;
    source.tag = packet.source;
    source.to_port = raw.to_port;
    source.prefix = wire::IcrcPrefix::make(raw.from, local_, raw.to_port);
  }
  source.prefix.patch(raw.port, static_cast<std::uint16_t>(packet.udp_length));
  return wire::load_icrc(packet.bytes.data() + packet.bytes.size()) -
         wire::icrc(source.prefix, packet.bytes);
}

}  // namespace mrc::inline v0_1::port
