// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/port/packet_options.hpp"
#include "mrc/port/port.hpp"
#include "mrc/port/socket.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/entropy.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/packet_build.hpp"

namespace mrc::inline v0_1::port {

inline constexpr std::size_t kEthernetHeader = 14;

/// An entry of a packet port's address table: all headers in front of BTH, ready but for what
/// differs between packets.
struct PacketPeer {
  bool known = false;
  bool resolved = false;  ///< next_hop is known
  bool used = false;      ///< since next hops were asked for last
  IpAddress ip{};
  IpAddress gateway{};
  MacAddress next_hop{};
  wire::Envelope envelope;          ///< of all its packets
  std::vector<PacketRoute> routes;  ///< [port_path]; empty: not encapsulated
  wire::IcrcPrefix prefix;
};

/// Sends packets one frame each, as many as possible with one system call. Payload is not copied
/// here: the kernel gathers it from the user's memory. Large (scratch space): lives on the heap.
/// One thread at a time.
class PacketTransmitter {
 public:
  static constexpr std::size_t kBatch = 64;  ///< frames per system call

  PacketTransmitter(wire::EvFormat format, bool icrc) noexcept : format_(format), icrc_(icrc) {}
  PacketTransmitter(const PacketTransmitter&) = delete;
  PacketTransmitter& operator=(const PacketTransmitter&) = delete;

  /// True while no further packet may be added before flush().
  [[nodiscard]] bool full(const wire::TxPacket& next) const noexcept {
    return count_ == kBatch || vectors_used_ + next.piece_count + 2 > kVectors;
  }

  /// Adds a frame. `route` is null for a packet without encapsulation. full() must be false.
  void add(const wire::TxBurst& burst, const wire::TxPacket& packet, PacketPeer& peer,
           const PacketRoute* route, const MacAddress& own) noexcept {
    Head& head = heads_[count_];
    const std::size_t in_front = put_envelope(head, packet, peer, route, own);
    std::memcpy(head.data() + in_front, packet.header.data(), packet.header_length);
    iovec* first = &vectors_[vectors_used_];
    vectors_[vectors_used_++] = {head.data(), in_front + packet.header_length};
    for (const wire::Piece& piece : burst.pieces(packet))
      if (piece.length != 0)
        vectors_[vectors_used_++] = {const_cast<std::uint8_t*>(piece.data), piece.length};
    std::uint8_t* trailer = trailers_[count_].data();
    std::memset(trailer, 0, packet.pad);
    wire::store_icrc(trailer + packet.pad, icrc_ ? icrc_of(burst, packet, peer) : 0);
    vectors_[vectors_used_++] = {trailer, packet.pad + wire::kIcrcSize};
    msghdr& message = messages_[count_].msg_hdr;
    message.msg_iov = first;
    message.msg_iovlen = static_cast<std::size_t>(&vectors_[vectors_used_] - first);
    lengths_[count_++] = packet.transport_length();
  }

  /// Sends the frames added, as many as the socket takes, and forgets the rest. Returns how many
  /// went; with fewer than all, errno says why the next one did not.
  std::size_t flush(const Socket& socket, PortStats& stats) noexcept {
    std::size_t done = 0;
    while (done < count_) {
      const int n = sendmmsg(socket.fd(), messages_.data() + done,
                             static_cast<unsigned>(count_ - done), MSG_DONTWAIT);
      ++stats.tx_calls;
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      for (int i = 0; i < n; ++i) stats.tx_bytes += lengths_[done++];
    }
    stats.tx_packets += done;
    count_ = vectors_used_ = 0;
    return done;
  }

 private:
  static constexpr std::size_t kVectors = 2048;
  using Head =
      std::array<std::uint8_t, kEthernetHeader + wire::kMaxEnvelope + wire::kMaxTransportHeader>;
  using Trailer = std::array<std::uint8_t, 8>;

  /// Ethernet to UDP; returns its length.
  [[nodiscard]] std::size_t put_envelope(Head& head, const wire::TxPacket& packet,
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
      e.encapsulation =
          route->has_srh ? wire::Encapsulation::srh : wire::Encapsulation::ipv6_in_ipv6;
      e.outer_destination = route->destination;
      e.segment = route->segment;
    }
    const MutableBytes room = MutableBytes(head).subspan(kEthernetHeader);
    return kEthernetHeader + wire::build_envelope(room, e, packet.transport_length());
  }

  [[nodiscard]] std::uint32_t icrc_of(const wire::TxBurst& burst, const wire::TxPacket& packet,
                                      PacketPeer& peer) const noexcept {
    peer.prefix.patch(wire::to_wire(packet.entropy, format_).source_port,
                      static_cast<std::uint16_t>(packet.transport_length() + sizeof(wire::Udp)));
    return wire::icrc(peer.prefix, Bytes(packet.header).first(packet.header_length),
                      burst.pieces(packet), packet.pad);
  }

  wire::EvFormat format_;
  bool icrc_;
  std::size_t count_ = 0, vectors_used_ = 0;
  std::array<mmsghdr, kBatch> messages_{};
  std::array<Head, kBatch> heads_;
  std::array<Trailer, kBatch> trailers_;
  std::array<std::uint32_t, kBatch> lengths_{};
  std::array<iovec, kVectors> vectors_;
};

}  // namespace mrc::inline v0_1::port
