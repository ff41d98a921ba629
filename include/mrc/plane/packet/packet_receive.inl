// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/plane/packet/packet_receive.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::port {

/// Receives the packets that fault injection lets through, for ReceiveCheck.
struct PacketReceiver::Sink {
  ReceiveCheck& check;
  RxBurst& rx;
  PortStats& stats;
  [[nodiscard]] bool full() const noexcept { return rx.room() == 0; }
  void deliver(const RawPacket& packet) noexcept { check.pass(packet, rx, stats); }
};

PacketReceiver::PacketReceiver(const PacketReceiverOptions& options)
    : options_(options), check_(options.local, options.icrc) {
  options_.parse.check_icrc = false;  // done after fault injection
}

void PacketReceiver::receive(FrameChannel& channel, const wire::MacAddress& own, Time now,
                             FaultInjector& faults, RxBurst& rx, PortStats& stats) noexcept {
  Sink sink{check_, rx, stats};
  if (faults.active()) [[unlikely]]
    faults.release(now, sink);
  if (sink.full()) return;
  if (!leftover()) {
    frames_ = channel.receive(rx.room());
    next_ = 0;
    if (!frames_.empty()) ++stats.rx_calls;
  }
  while (leftover() && !sink.full()) {
    RawPacket packet;
    if (!take_apart(frames_[next_++], own, packet, stats)) continue;
    if (faults.active()) [[unlikely]]
      faults.receive(now, packet, sink);
    else
      sink.deliver(packet);
  }
}

bool PacketReceiver::take_apart(MutableBytes frame, const wire::MacAddress& own, RawPacket& packet,
                                PortStats& stats) noexcept {
  if (frame.size() < wire::kEthernetHeader) {
    ++stats.rx_malformed;
    return false;
  }
  wire::ParsedPacket parsed;
  const wire::PacketError error =
      wire::parse_packet(frame.subspan(wire::kEthernetHeader), options_.parse, parsed);
  if (error == wire::PacketError::foreign_port ||
      !std::equal(own.begin(), own.end(), frame.begin()) ||
      (error == wire::PacketError::none && parsed.destination != options_.local)) {
    ++stats.rx_foreign;
    return false;
  }
  if (error != wire::PacketError::none) {
    ++stats.rx_malformed;
    return false;
  }
  const bool whole = parsed.trim == wire::Trim::none;
  const auto begin = static_cast<std::size_t>(parsed.transport.data() - frame.data());
  packet.bytes = frame.subspan(begin, parsed.transport.size() + (whole ? wire::kIcrcSize : 0));
  packet.from = parsed.source;
  packet.port = parsed.source_port;
  packet.to_port = parsed.destination_port;
  packet.flow_label = parsed.flow_label;
  packet.traffic_class = wire::make_tos(parsed.outer_dscp, parsed.outer_ecn);
  packet.trimmable = parsed.outer_dscp == options_.parse.dscp.trimmable ||
                     parsed.outer_dscp == options_.parse.dscp.trimmable_retx;
  packet.facts.source = source_tag(parsed.source);
  packet.facts.udp_length = parsed.udp_length;
  packet.facts.entropy = wire::from_wire(parsed.entropy(), options_.ev_format);
  packet.facts.plane = options_.plane;
  packet.facts.ecn = parsed.outer_ecn;
  packet.facts.trim = parsed.trim;
  return true;
}

}  // namespace mrc::inline v0_1::port
