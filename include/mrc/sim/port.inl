// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "mrc/sim/port.hpp"

namespace mrc::inline v0_1::sim {

wire::Envelope Port::envelope(const wire::TxPacket& tx) const noexcept {
  const Peer& peer = peers_[mrc::value(tx.peer)];
  wire::Envelope e;
  e.source = Fabric::address(host_, plane_);
  e.destination = peer.address;
  const wire::WireEntropy entropy = wire::to_wire(tx.entropy, format_);
  e.source_port = entropy.source_port;
  e.flow_label = entropy.flow_label;
  e.dscp = tx.dscp;
  e.ecn = tx.ecn;
  if (fabric_.settings().forwarding != Forwarding::srv6) return e;
  e.encapsulation = wire::Encapsulation::ipv6_in_ipv6;
  e.outer_source = e.source;
  e.outer_destination = peer.route;
  // The uplink of a T0 is the index of the T1: the low byte of the second uSID.
  if (peer.over_t1) e.outer_destination[7] = static_cast<std::uint8_t>(tx.port_path);
  return e;
}

void Port::send(const wire::TxPacket& tx, std::span<const wire::TxSge> sges) {
  const PacketId id = network_.packets().take();
  Packet& p = network_.packets()[id];
  const wire::Envelope e = envelope(tx);
  const Bytes header(tx.header.data(), tx.header_length);
  p.payload.clear();
  std::size_t before = 0;
  if (settings_.carry_payload) {
    before = e.size();
    const std::size_t whole = wire::build_packet(frame_, e, header, sges, tx.pad, tx.check_seed);
    std::memcpy(p.head.data(), frame_.data(), before + header.size());
    p.payload.assign(frame_.begin() + static_cast<std::ptrdiff_t>(before + header.size()),
                     frame_.begin() + static_cast<std::ptrdiff_t>(whole));
  } else {
    before = wire::build_envelope(p.head, e, tx.transport_length());
    std::memcpy(p.head.data() + before, header.data(), header.size());
  }
  p.udp = static_cast<std::uint16_t>(before - sizeof(wire::Udp));
  p.inner_ip = static_cast<std::uint16_t>(p.udp - sizeof(wire::Ipv6));
  p.head_length = static_cast<std::uint16_t>(before + header.size());
  p.length = static_cast<std::uint32_t>(before) + tx.transport_length();
  p.traffic = tx.dscp == settings_.dscp.control ? TrafficClass::control : TrafficClass::data;
  p.trimmed = p.corrupted = false;
  p.ingress = kNoLink;
  ++stats_.tx_packets;
  stats_.tx_bytes += p.length;
  network_.launch(out_, id, wire::is_data(wire::view_as<wire::Bth>(header).opcode()));
}

void Port::receive(Time, port::RxBurst& rx) {
  if (arrived_ == kNoPacket || rx.room() == 0) return;
  Packet& p = network_.packets()[arrived_];
  std::memcpy(frame_.data(), p.head.data(), p.head_length);
  if (!p.payload.empty())
    std::memcpy(frame_.data() + p.head_length, p.payload.data(), p.payload.size());
  // Flip a bit that only the iCRC covers: of the payload, else the last one of the PSN.
  if (p.corrupted)
    frame_[p.payload.size() > 8 ? p.head_length + p.payload.size() / 2
                                : p.udp + sizeof(wire::Udp) + 11] ^= 1;
  const std::uint32_t length = p.length;
  // Without payload no iCRC can be computed, and a trimmed packet has none. Both errors count as
  // detected: the former by the iCRC, the latter as by the Ethernet FCS.
  const bool known_bad = p.corrupted && (p.trimmed || !settings_.carry_payload);
  network_.drop(arrived_, p.corrupted ? PacketFate::corrupted : PacketFate::arrived);
  arrived_ = kNoPacket;
  ++stats_.rx_packets;
  stats_.rx_bytes += length;
  wire::ParsedPacket parsed;
  const wire::PacketError error = wire::parse_packet({frame_.data(), length}, parse_, parsed);
  if (error != wire::PacketError::none && error != wire::PacketError::bad_icrc) {
    ++stats_.rx_malformed;
    return;
  }
  wire::RxPacket out;
  out.check = known_bad ? 1 : parsed.check;
  out.bytes = parsed.transport;
  out.source = tag(parsed.source);
  out.udp_length = parsed.udp_length;
  out.entropy = wire::from_wire(parsed.entropy(), format_);
  out.plane = static_cast<Plane>(plane_);
  out.ecn = parsed.outer_ecn;
  out.trim = parsed.trim;
  if (parsed.transport_error == wire::ParseError::none &&
      wire::is_datagram(wire::view_as<wire::Bth>(out.bytes).opcode()))
    return rx.push(out, {parsed.source, parsed.destination, parsed.flow_label,
                         wire::make_tos(parsed.outer_dscp, parsed.outer_ecn), 0});
  rx.push(out);
}

}  // namespace mrc::inline v0_1::sim
