// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "mrc/plane/packet/packet_transmit.hpp"

namespace mrc::inline v0_1::port {

void PacketTransmitter::add(const wire::TxBurst& burst, const wire::TxPacket& packet,
                            PacketPeer& peer, const PacketRoute* route,
                            const MacAddress& own) noexcept {
  Head& head = heads_[count_];
  const std::size_t in_front = put_envelope(head, packet, peer, route, own);
  std::memcpy(head.data() + in_front, packet.header.data(), packet.header_length);
  iovec* first = &vectors_[vectors_used_];
  vectors_[vectors_used_++] = {head.data(), in_front + packet.header_length};
  for (const wire::TxSge& sge : burst.sges(packet))
    if (sge.length != 0)
      vectors_[vectors_used_++] = {const_cast<std::uint8_t*>(sge.data), sge.length};
  std::uint8_t* trailer = trailers_[count_].data();
  std::memset(trailer, 0, packet.pad);
  wire::store_icrc(trailer + packet.pad,
                   icrc_ ? icrc_of(burst, packet, peer) + packet.check_seed : 0);
  vectors_[vectors_used_++] = {trailer, packet.pad + wire::kIcrcSize};
  msghdr& message = messages_[count_].msg_hdr;
  message.msg_iov = first;
  message.msg_iovlen = static_cast<std::size_t>(&vectors_[vectors_used_] - first);
  lengths_[count_++] = packet.transport_length();
}

std::size_t PacketTransmitter::flush(FrameChannel& channel, PortStats& stats) noexcept {
  const std::size_t done = count_ == 0 ? 0 : channel.send({messages_.data(), count_}, stats);
  for (std::size_t i = 0; i < done; ++i) stats.tx_bytes += lengths_[i];
  stats.tx_packets += done;
  count_ = vectors_used_ = 0;
  return done;
}

std::size_t PacketTransmitter::put_envelope(Head& head, const wire::TxPacket& packet,
                                            const PacketPeer& peer, const PacketRoute* route,
                                            const MacAddress& own) const noexcept {
  std::memcpy(head.data(), peer.next_hop.data(), 6);
  std::memcpy(head.data() + 6, own.data(), 6);
  head[12] = 0x86;
  head[13] = 0xDD;
  wire::Envelope e = peer.envelope;
  const wire::WireEntropy entropy = wire::to_wire(packet.entropy, format_);
  e.source_port = entropy.source_port;
  e.flow_label = entropy.flow_label;
  e.dscp = packet.dscp;
  e.ecn = packet.ecn;
  if (route != nullptr) {
    e.encapsulation = route->has_srh ? wire::Encapsulation::srh : wire::Encapsulation::ipv6_in_ipv6;
    e.outer_destination = route->destination;
    e.segment = route->segment;
  }
  const MutableBytes room = MutableBytes(head).subspan(wire::kEthernetHeader);
  return wire::kEthernetHeader + wire::build_envelope(room, e, packet.transport_length());
}

std::uint32_t PacketTransmitter::icrc_of(const wire::TxBurst& burst, const wire::TxPacket& packet,
                                         PacketPeer& peer) const noexcept {
  peer.prefix.patch(wire::to_wire(packet.entropy, format_).source_port,
                    static_cast<std::uint16_t>(packet.transport_length() + sizeof(wire::Udp)));
  return wire::icrc(peer.prefix, Bytes(packet.header).first(packet.header_length),
                    burst.sges(packet), packet.pad);
}

}  // namespace mrc::inline v0_1::port
