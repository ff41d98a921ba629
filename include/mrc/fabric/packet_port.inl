// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/fabric/packet_port.hpp"

#include <linux/if_ether.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/fabric/packet_link.inl"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::port {

PacketPort::PacketPort(const PacketPortOptions& options)
    : PacketPort((options.check(), options), std::make_unique<SocketFrames>(options)) {}

PacketPort::PacketPort(PacketPortOptions options, std::unique_ptr<FrameChannel> frames)
    : options_((options.check(), std::move(options))),
      frames_(std::move(frames)),
      ask_(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  if (!ask_.open()) throw_errno("cannot open an IPv6 socket, which packet ports need");
  if (!attach_interface() && !options_.may_be_absent)
    throw Error(Errc::not_found, "there is no interface " + options_.interface + " for plane " +
                                     std::to_string(options_.plane) +
                                     "; `ip link` lists those that there are");
  note_surroundings();
  // With encapsulation, too: the last switch may have removed it.
  silence_[0] = silence_udp(options_.local, options_.udp_port, notes_);
  if (options_.udp_port != wire::kUdpPortAlternative)
    silence_[1] = silence_udp(options_.local, wire::kUdpPortAlternative, notes_);
  capabilities_.receive_buffer = frames_->buffer() / kBufferShare;
  capabilities_.exact_icrc = capabilities_.outer_headers = true;
  capabilities_.trimmed_packets = true;
  capabilities_.max_burst = 1;
  transmitter_ = std::make_unique<PacketTransmitter>(options_.ev_format, options_.icrc);
  PacketReceiverOptions receiver;
  receiver.local = options_.local;
  receiver.plane = options_.plane;
  receiver.ev_format = options_.ev_format;
  receiver.parse.dscp = options_.dscp;
  receiver.parse.udp_ports[0] = options_.udp_port;
  receiver.icrc = options_.icrc;
  receiver_ = std::make_unique<PacketReceiver>(receiver);
}

PacketPort::PacketPort(PacketPort&&) noexcept = default;
PacketPort& PacketPort::operator=(PacketPort&&) noexcept = default;
PacketPort::~PacketPort() = default;

/// Counts the packets of one transmit() call on their way through the transmitter.
struct PacketPort::Batch {
  PacketPort& port;
  std::uint32_t before = 0;   ///< packets that were sent, or counted as such or as errors
  std::uint32_t waiting = 0;  ///< packets in the transmitter

  /// Adds a packet, and sends those added before if the transmitter is full. False: the socket
  /// takes no more.
  [[nodiscard]] bool take(const wire::TxBurst& burst, const wire::TxPacket& packet) noexcept {
    PacketTransmitter& out = *port.transmitter_;
    if (out.full(packet) && !flush()) return false;
    PacketPeer* peer = port.find_peer(packet);
    if (peer == nullptr || !sendable(packet, port.capabilities_.max_packet)) {
      if (!flush()) return false;  // `before` counts packets from the first on, in order
      ++port.stats_.tx_errors;
      ++before;
      return true;
    }
    if (port.impaired() != nullptr && port.impairment()->vanishes(packet.port_path)) [[unlikely]] {
      if (!flush()) return false;
      ++port.stats_.tx_packets;  // counted as sent, like a loss in the network
      port.stats_.tx_bytes += packet.transport_length();
      ++before;
      return true;
    }
    const PacketRoute* route = peer->routes.empty() ? nullptr : &peer->routes[packet.port_path];
    peer->used = true;
    out.add(burst, packet, *peer, route, port.own_);
    ++waiting;
    return true;
  }
  [[nodiscard]] bool flush() noexcept {
    const auto sent =
        static_cast<std::uint32_t>(port.transmitter_->flush(*port.frames_, port.stats_));
    before += sent;
    return sent == std::exchange(waiting, 0);
  }
  /// After a flush() that failed with errno: how many of `total` packets count as taken.
  [[nodiscard]] std::uint32_t give_up(std::uint32_t total) noexcept {
    const std::uint32_t rest = total - before;
    if (errno == ENXIO || errno == ENODEV) port.index_ = 0;  // makes attach_interface() bind again
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
      port.stats_.tx_busy += rest;
      return before;
    }
    port.attach_interface();
    if (!port.interface_up_) {
      port.stats_.tx_errors += rest;
      return before;
    }
    // The link is up, so this frame is the problem: it is lost, the others can be sent.
    ++port.stats_.tx_errors;
    return before + 1;
  }
};

std::uint32_t PacketPort::transmit(Time now, const wire::TxBurst& burst,
                                   std::span<const wire::TxGroup> groups) noexcept {
  check_link(now);
  std::uint32_t total = 0;
  for (const wire::TxGroup& group : groups) total += group.count;
  if (!link_up()) return refuse(total);
  Batch batch{*this};
  for (const wire::TxGroup& group : groups)
    for (const wire::TxPacket& packet : burst.packets(group))
      if (!batch.take(burst, packet)) return batch.give_up(total);
  return batch.flush() ? total : batch.give_up(total);
}

void PacketPort::receive(Time now, RxBurst& rx) noexcept {
  check_link(now);
  receiver_->receive(*frames_, own_, now, impaired(), rx, stats_);
}

std::uint64_t PacketPort::add_peer(PeerId id, const Route& route) {
  const PeerAddress& address = route.address;
  if (is_v4(address.ip) || is_unspecified(address.ip))
    throw Error(Errc::unreachable,
                "peer " + format_address(address) + " has no IPv6 address for packet ports");
  PacketPeer& peer = peers_.claim(id);
  peer.known = true;
  peer.target = detail::first_target(route);
  peer.routes = route.outer;
  peer.envelope.source = peer.envelope.outer_source = options_.local;
  peer.envelope.destination = address.ip;
  peer.envelope.destination_port = address.udp_port;
  peer.prefix = wire::IcrcPrefix::make(options_.local, address.ip, address.udp_port);
  find_next_hop(peer);
  return source_tag(address.ip);
}

void PacketPort::remove_peer(PeerId id) noexcept {
  peers_.remove(id);
}

Time PacketPort::next_release() const noexcept {
  return receiver_->leftover() ? Time::min() : std::min(next_impaired(), frames_->next_look());
}

std::uint32_t PacketPort::receive_fill() const noexcept {
  return frames_->backlogged() ? frames_->fill() : 0;
}

PortStats PacketPort::stats() const noexcept {
  PortStats stats = stats_;
  stats.rx_overrun = frames_->overrun();
  return stats;
}

PacketPeer* PacketPort::find_peer(const wire::TxPacket& packet) noexcept {
  PacketPeer* peer = peers_.find(packet.peer);
  if (peer == nullptr || !peer->resolved) return nullptr;
  return peer->routes.empty() || packet.port_path < peer->routes.size() ? peer : nullptr;
}

std::uint32_t PacketPort::refuse(std::uint32_t count) noexcept {
  count_refused(count);
  stats_.tx_errors += count;
  return 0;
}

std::uint32_t PacketPort::headers() const noexcept {
  return static_cast<std::uint32_t>(wire::envelope_size(false, options_.encapsulation));
}

/// Receives the packets that the impairment lets through, for ReceiveCheck.
struct PacketReceiver::Sink final : PacketSink {
  Sink(ReceiveCheck& c, RxBurst& burst, PortStats& s) noexcept : check(c), rx(burst), stats(s) {}
  ReceiveCheck& check;
  RxBurst& rx;
  PortStats& stats;
  [[nodiscard]] bool full() const noexcept override { return rx.room() == 0; }
  void deliver(const RawPacket& packet) noexcept override { check.pass(packet, rx, stats); }
};

PacketReceiver::PacketReceiver(const PacketReceiverOptions& options)
    : options_(options), check_(options.local, options.icrc) {
  options_.parse.check_icrc = false;  // done behind the impairment
}

void PacketReceiver::receive(FrameChannel& channel, const wire::MacAddress& own, Time now,
                             Impairment* impairment, RxBurst& rx, PortStats& stats) noexcept {
  Sink sink{check_, rx, stats};
  if (impairment != nullptr) [[unlikely]]
    impairment->release(now, sink);
  if (sink.full()) return;
  if (!leftover()) {
    frames_ = channel.receive(rx.room());
    next_ = 0;
    if (!frames_.empty()) ++stats.rx_calls;
  }
  while (leftover() && !sink.full()) {
    RawPacket packet;
    if (!take_apart(frames_[next_++], own, packet, stats)) continue;
    if (impairment != nullptr) [[unlikely]]
      impairment->receive(now, packet, sink);
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

namespace detail {

/// The program of a slot filter (attach_slot_filter()), in classic BPF. A plain value.
class SlotFilter final : public FilterProgram {
 public:
  SlotFilter(std::uint8_t slot, std::uint16_t udp_port) {
    constexpr std::uint32_t kIp = ETH_HLEN, kInner = kIp + sizeof(wire::Ipv6);
    load_half(12);
    require(ETH_P_IPV6);
    load_byte(kIp + 6);
    // Register X: offset of the header after the outer one (inner IPv6 or UDP).
    emit(BPF_LDX | BPF_IMM, kInner);
    const std::size_t udp = jump_if(wire::kNextUdp);
    const std::size_t inner = jump_if(wire::kNextIpv6);
    require(wire::kNextRouting);
    load_byte(kInner + 1);  // (length + 1) x 8
    emit(BPF_ALU | BPF_ADD | BPF_K, 1);
    emit(BPF_ALU | BPF_LSH | BPF_K, 3);
    emit(BPF_ALU | BPF_ADD | BPF_K, kInner);
    emit(BPF_MISC | BPF_TAX, 0);
    load_byte(kInner);
    require(wire::kNextIpv6);
    land(inner);
    load_byte_x(6);
    require(wire::kNextUdp);
    emit(BPF_MISC | BPF_TXA, 0);
    emit(BPF_ALU | BPF_ADD | BPF_K, sizeof(wire::Ipv6));
    emit(BPF_MISC | BPF_TAX, 0);
    land(udp);
    load_half_x(2);
    const std::size_t port = jump_if(udp_port);
    require(udp_port == wire::kUdpPort ? wire::kUdpPortAlternative : udp_port);
    land(port);
    load_byte_x(8);  // BTH: opcode, ... destination QPN from byte 5 on
    const std::size_t request = jump_if(static_cast<std::uint8_t>(wire::Opcode::endpoint_request));
    const std::size_t answer = jump_if(static_cast<std::uint8_t>(wire::Opcode::endpoint_response));
    load_byte_x(8 + 5);
    const std::size_t own = jump_if(slot);
    require(0x100);  // no byte is: everything else of other slots is rejected
    land(request);
    land(answer);
    // Endpoint packets to QPN 2 are for all slots, those to a queue pair for its own.
    load_byte_x(8 + 5);
    const std::size_t own_endpoint = jump_if(slot);
    require(0);
    load_half_x(8 + 6);
    require(value(kEndpointQpn));
    land(own);
    land(own_endpoint);
    finish();
  }

 private:
  void load_half(std::uint32_t at) { emit(BPF_LD | BPF_H | BPF_ABS, at); }
  void load_half_x(std::uint32_t at) { emit(BPF_LD | BPF_H | BPF_IND, at); }
  void load_byte_x(std::uint32_t at) { emit(BPF_LD | BPF_B | BPF_IND, at); }
};

}  // namespace detail

void attach_slot_filter(const Socket& socket, std::uint8_t slot, std::uint16_t udp_port) {
  detail::SlotFilter(slot, udp_port).attach(socket);
}

}  // namespace mrc::inline v0_1::port
