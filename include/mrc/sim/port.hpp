// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mrc/port/port.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/network.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::inline v0_1::sim {

/// Memory in which ports assemble received packets. Shared by all ports of a simulation, to stay in
/// the cache: a packet is processed before the next one arrives.
using FrameBuffer = std::vector<std::uint8_t>;

/// Settings of a simulated NIC port.
struct PortSettings {
  wire::DscpMap dscp{};             ///< DSCP per packet class
  std::uint32_t mtu = 4096;         ///< largest payload
  bool carry_payload = false;       ///< real payload and iCRC instead of lengths only
  std::uint64_t queue = 12 * 1024;  ///< bytes queued in the NIC from which on it is busy
};

/// A NIC port in a simulated fabric, a model of port::Port: builds whole packets from an engine's
/// bursts, source routed according to the fabric (mrc-1.0 §1.1, §3.1, §4), and parses received
/// ones. One thread at a time, that of its network.
class Port {
 public:
  /// The port of a host in a plane. Network and fabric must outlive it.
  Port(Network& network, const Fabric& fabric, unsigned host, unsigned plane,
       const PortSettings& settings, FrameBuffer& frame)
      : network_(network),
        fabric_(fabric),
        host_(host),
        plane_(plane),
        settings_(settings),
        frame_(frame),
        out_(fabric.host_up(host, plane)),
        format_(fabric.settings().forwarding == Forwarding::stev ? wire::EvFormat::stev
                                                                 : wire::EvFormat::udp) {
    capabilities_.max_packet = settings.mtu + static_cast<std::uint32_t>(wire::kMaxTransportHeader);
    capabilities_.exact_icrc = capabilities_.outer_headers = true;
    parse_.dscp = settings.dscp;
    parse_.check_icrc = settings.carry_payload;
    const std::size_t largest = kMaxHead + settings.mtu + 8;
    if (frame_.size() < largest) frame_.resize(largest);
  }

  // --- port::Port -------------------------------------------------------------------------------

  /// Sends all packets of the groups; the engine has checked free().
  std::uint32_t transmit(Time, const wire::TxBurst& burst, std::span<const wire::TxGroup> groups) {
    std::uint32_t taken = 0;
    for (const wire::TxGroup& group : groups) {
      for (const wire::TxPacket& p : burst.packets(group)) send(p, burst.sges(p));
      taken += group.count;
    }
    return taken;
  }
  /// Appends the packet of the last deliver(), if it is valid.
  void receive(Time, port::RxBurst& rx);
  /// `address.ip` is Fabric::address() of a host in this plane.
  std::uint64_t add_peer(PeerId peer, const port::PeerAddress& address) {
    if (peers_.size() <= mrc::value(peer)) peers_.resize(mrc::value(peer) + 1);
    Peer& p = peers_[mrc::value(peer)];
    p.address = address.ip;
    const unsigned to = host_of(address.ip);
    if (fabric_.settings().forwarding == Forwarding::srv6) {
      p.route = fabric_.route(host_, to, plane_, 0);
      p.over_t1 = fabric_.uplinks() > 1 && fabric_.t0_of(host_) != fabric_.t0_of(to);
    }
    return tag(address.ip);
  }
  /// Forgets a peer's address.
  void remove_peer(PeerId peer) { peers_[mrc::value(peer)] = {}; }
  /// Whether its link is up.
  [[nodiscard]] bool link_up() const noexcept {
    return network_[out_].up && network_[fabric_.host_down(host_, plane_)].up;
  }
  /// None: -1.
  [[nodiscard]] int poll_fd() const noexcept { return -1; }
  /// None: -1.
  [[nodiscard]] int link_fd() const noexcept { return -1; }
  /// Nothing is ever held: kNever.
  [[nodiscard]] Time next_release() const noexcept { return kNever; }
  /// Properties of the port.
  [[nodiscard]] const port::Capabilities& capabilities() const noexcept { return capabilities_; }
  /// Counters.
  [[nodiscard]] port::PortStats stats() const noexcept { return stats_; }

  // --- for the host
  // -------------------------------------------------------------------------------

  /// Whether the NIC accepts packets: its link is up as far as it has detected, and it has less
  /// than PortSettings::queue bytes queued, data and control. (Under PFC, control here waits behind
  /// paused data.)
  [[nodiscard]] bool free() const noexcept {
    const Link& out = network_[out_];
    return out.up && out.queued() < settings_.queue;
  }
  /// A packet arrived; the next receive() returns it.
  void deliver(PacketId packet) noexcept { arrived_ = packet; }

 private:
  struct Peer {
    wire::IpAddress address{};
    wire::IpAddress route{};  ///< with uplink 0
    bool over_t1 = false;     ///< the route has a T1 in its second uSID
  };

  [[nodiscard]] static unsigned host_of(const wire::IpAddress& a) noexcept {
    unsigned number = 0;
    for (unsigned i = 12; i < 16; ++i) number = number << 8 | a[i];
    return number - 1;
  }
  /// Unique for each host and plane.
  [[nodiscard]] static std::uint64_t tag(const wire::IpAddress& a) noexcept {
    return std::uint64_t{host_of(a)} << 8 | a[11] | std::uint64_t{1} << 40;
  }

  void send(const wire::TxPacket& tx, std::span<const wire::TxSge> sges);
  [[nodiscard]] wire::Envelope envelope(const wire::TxPacket& tx) const noexcept;

  Network& network_;
  const Fabric& fabric_;
  unsigned host_, plane_;
  PortSettings settings_;
  FrameBuffer& frame_;
  LinkId out_;
  wire::EvFormat format_;
  wire::ParseOptions parse_;
  std::vector<Peer> peers_;
  PacketId arrived_ = kNoPacket;
  port::Capabilities capabilities_;
  port::PortStats stats_;
};

inline wire::Envelope Port::envelope(const wire::TxPacket& tx) const noexcept {
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

inline void Port::send(const wire::TxPacket& tx, std::span<const wire::TxSge> sges) {
  const PacketId id = network_.packets().take();
  Packet& p = network_.packets()[id];
  const wire::Envelope e = envelope(tx);
  const Bytes header(tx.header.data(), tx.header_length);
  p.payload.clear();
  std::size_t before = 0;
  if (settings_.carry_payload) {
    before = e.size();
    const std::size_t whole = wire::build_packet(frame_, e, header, sges, tx.pad);
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
  network_.send(out_, id);
}

inline void Port::receive(Time, port::RxBurst& rx) {
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
  // detected: the former by the iCRC, the latter by the Ethernet FCS.
  const bool known_bad = p.corrupted && (p.trimmed || !settings_.carry_payload);
  network_.drop(arrived_);
  arrived_ = kNoPacket;
  ++stats_.rx_packets;
  stats_.rx_bytes += length;
  wire::ParsedPacket parsed;
  const wire::PacketError error = known_bad
                                      ? wire::PacketError::bad_icrc
                                      : wire::parse_packet({frame_.data(), length}, parse_, parsed);
  if (error == wire::PacketError::bad_icrc) ++stats_.rx_bad_icrc;
  if (error != wire::PacketError::none) {
    if (error != wire::PacketError::bad_icrc) ++stats_.rx_malformed;
    return;
  }
  wire::RxPacket out;
  out.bytes = parsed.transport;
  out.source = tag(parsed.source);
  out.udp_length = parsed.udp_length;
  out.entropy = wire::from_wire(parsed.entropy(), format_);
  out.plane = static_cast<Plane>(plane_);
  out.ecn = parsed.outer_ecn;
  out.trim = parsed.trim;
  rx.push(out);
}

static_assert(port::Port<Port>);

}  // namespace mrc::inline v0_1::sim
