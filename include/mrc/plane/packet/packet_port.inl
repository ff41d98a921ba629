// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/plane/packet/packet_link.hpp"
#include "mrc/plane/packet/packet_link.inl"
#include "mrc/plane/packet/packet_port.hpp"
#include "mrc/plane/packet/packet_receive.hpp"
#include "mrc/plane/packet/packet_socket.hpp"
#include "mrc/plane/packet/packet_transmit.hpp"
#include "mrc/plane/sendable.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::port {

PacketPort::PacketPort(const PacketPortOptions& options)
    : PacketPort((options.check(), options), std::make_unique<SocketFrames>(options)) {}

PacketPort::PacketPort(PacketPortOptions options, std::unique_ptr<FrameChannel> frames)
    : CopyingPort(options.fault_seed, options.fault_slots),
      options_((options.check(), std::move(options))),
      frames_(std::move(frames)),
      ask_(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  if (!ask_.open()) throw_errno("cannot open an IPv6 socket, which packet ports need");
  faults_.set(options_.faults);
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
    if (port.faults_.active() && port.faults_.vanishes(packet.port_path)) [[unlikely]] {
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
  receiver_->receive(*frames_, own_, now, faults_, rx, stats_);
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
  return receiver_->leftover() ? Time::min()
                               : std::min(faults_.next_release(), frames_->next_look());
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
  if (faults_.down()) faults_.count_refused(count);
  stats_.tx_errors += count;
  return 0;
}

std::uint32_t PacketPort::headers() const noexcept {
  return static_cast<std::uint32_t>(wire::envelope_size(false, options_.encapsulation));
}

}  // namespace mrc::inline v0_1::port
