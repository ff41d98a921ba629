// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/mrc_host.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::sim {

MrcHost::MrcHost(Network& network, unsigned number, const HostSettings& settings,
                 std::uint64_t seed)
    : network_(network),
      number_(number),
      settings_(settings),
      // Small, so that no port gets much more than it has room for.
      burst_(std::max(4u, settings.engine.burst), std::max(4u, settings.engine.burst) * 64) {
  engine::EngineOptions options = settings.engine;
  options.seed = seed;
  options.secret = {seed, 0};  // nobody attacks, and runs are to be repeated
  options.icrc = settings.carry_payload;
  options.start = network.now();
  engine_ = std::make_unique<engine::Engine>(options);
  const auto pd = engine_->alloc_pd();
  const auto cq = engine_->create_cq(4 * 1024);
  if (!pd || !cq) throw Error(pd ? cq.error() : pd.error(), "simulated host");
  pd_ = pd.value();
  cq_ = cq.value();
  node_ = network.add_node(*this);
}

void MrcHost::attach(const Fabric& fabric, FrameBuffer& frame) {
  fabric_ = &fabric;
  const PortSettings port{settings_.engine.dscp, settings_.mtu, settings_.carry_payload,
                          settings_.nic_queue};
  for (unsigned p = 0; p < fabric.settings().planes; ++p)
    ports_.push_back(std::make_unique<Port>(network_, fabric, number_, p, port, frame));
  peers_.assign(fabric.settings().hosts, -1);
}

PeerId MrcHost::peer(unsigned host) {
  if (peers_.at(host) >= 0) return PeerId{static_cast<std::uint32_t>(peers_[host])};
  const FabricSettings& f = fabric_->settings();
  engine::PeerSpec spec;
  spec.slot = settings_.engine.slot;
  // The engine numbers peers from 0 in order of creation.
  const PeerId id{engine_->peer_count()};
  unsigned paths = fabric_->paths(number_, host);
  if (f.forwarding == Forwarding::udp) paths = 16;
  if (settings_.paths_per_plane != 0 && f.forwarding == Forwarding::udp)
    paths = settings_.paths_per_plane;
  else if (settings_.paths_per_plane != 0)
    paths = std::min(paths, settings_.paths_per_plane);
  for (unsigned p = 0; p < f.planes; ++p) {
    spec.planes |= plane_bit(static_cast<Plane>(p));
    spec.source_tags[p] = ports_[p]->add_peer(id, {Fabric::address(host, p), wire::kUdpPort});
  }
  for (unsigned u = 0; u < paths; ++u)
    for (unsigned p = 0; p < f.planes; ++p)
      spec.paths.push_back(
          {fabric_->ev(p, u), static_cast<Plane>(p), static_cast<std::uint16_t>(u)});
  const auto made = engine_->add_peer(spec);
  if (!made || made.value() != id) throw Error(Errc::no_resources, "simulated host: peer");
  peers_[host] = mrc::value(id);
  return id;
}

void MrcHost::on_packet(LinkId in, PacketId packet) {
  if (dead_) return network_.drop(packet, PacketFate::dead_host);
  Port& port = *ports_[network_[in].to_port];
  port.deliver(packet);
  rx_.clear();
  port.receive(network_.now(), rx_);
  if (rx_.empty()) return;
  engine_->receive(network_.now(), rx_.packets());
  work();
}

void MrcHost::on_link_state(LinkId link, bool) {
  const Link& l = network_[link];
  const auto plane = static_cast<Plane>(l.from == node_ ? l.from_port : l.to_port);
  network_.call_at(network_.now() + settings_.carrier_delay, [this, plane] {
    if (dead_) return;
    engine_->set_plane_up(network_.now(), plane, ports_[plane]->link_up());
    work();
  });
}

void MrcHost::on_timer(std::uint32_t token) {
  if (dead_ || token != timer_token_) return;
  timer_ = kNever;
  engine_->on_time(network_.now());
  work();
}

void MrcHost::set_timer() {
  const Time due = engine_->next_deadline();
  if (due >= timer_) return;
  timer_ = due;
  network_.wake(node_, due, ++timer_token_);
}

/// Passes the engine's completions on. True if there were any.
bool MrcHost::complete() {
  bool any = false;
  std::array<Completion, 16> done;
  while (const std::size_t n = engine_->poll_cq(cq_, done)) {
    any = true;
    for (std::size_t i = 0; i < n && application_ != nullptr; ++i)
      application_->on_completion(*this, done[i]);
  }
  engine::Engine::Event event;
  while (engine_->poll_event(event)) {
    if (event.kind != engine::Engine::Event::Kind::qp_error) continue;
    any = true;
    if (application_ != nullptr) application_->on_qp_error(*this, event.qpn);
  }
  return any;
}

/// Sends packets to ports with room. True if the engine may have more.
bool MrcHost::transmit() {
  PlaneMask free = 0;
  for (std::size_t p = 0; p < ports_.size(); ++p)
    if (ports_[p]->free()) free |= plane_bit(static_cast<Plane>(p));
  burst_.clear();
  engine_->poll_transmit(network_.now(), free, burst_);
  for (const wire::TxGroup& group : burst_.groups())
    ports_[group.plane]->transmit(network_.now(), burst_, {&group, 1});
  return !burst_.empty();
}

void MrcHost::work() {
  // Re-entered by calls from the application's callbacks.
  if (dead_ || working_) return;
  working_ = true;
  do {
    while (transmit()) {
    }
  } while (complete());
  working_ = false;
  set_timer();
}

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
