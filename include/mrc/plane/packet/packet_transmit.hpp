// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/plane/packet/frame_channel.hpp"
#include "mrc/plane/packet/packet_options.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::inline v0_1::port {

/// An entry of a packet port's address table: the headers in front of BTH, complete except for the
/// fields that differ between packets.
struct PacketPeer {
  bool known = false;               ///< the entry is in use
  bool resolved = false;            ///< next_hop is known
  bool used = false;                ///< a packet was sent since the next hop was looked up
  IpAddress target{};               ///< address that the next hop is looked up for
  IpAddress gateway{};              ///< neighbour that gets the frames: a router, or the peer
  MacAddress next_hop{};            ///< its Ethernet address, if resolved
  wire::Envelope envelope;          ///< of all its packets
  std::vector<PacketRoute> routes;  ///< [port_path]; none: not encapsulated
  wire::IcrcPrefix prefix;          ///< iCRC input in front of BTH, patched per packet
};

/// Sends each packet as a frame of its own, up to kBatch frames with one call. Payload is not
/// copied here: the channel gathers it from the user's memory. The object is large (scratch space)
/// and belongs on the heap. One thread at a time.
class PacketTransmitter {
 public:
  static constexpr std::size_t kBatch = 64;  ///< frames per call

  /// `format`: how EVs are carried; `icrc`: if false, the iCRC is sent as 0.
  PacketTransmitter(wire::EvFormat format, bool icrc) noexcept : format_(format), icrc_(icrc) {}
  PacketTransmitter(const PacketTransmitter&) = delete;
  PacketTransmitter& operator=(const PacketTransmitter&) = delete;

  /// True while no further packet may be added before flush().
  [[nodiscard]] bool full(const wire::TxPacket& next) const noexcept {
    return count_ == kBatch || vectors_used_ + next.sge_count + 2 > kVectors;
  }

  /// Adds a frame. `route` is null for a packet without encapsulation. full() must be false.
  void add(const wire::TxBurst& burst, const wire::TxPacket& packet, PacketPeer& peer,
           const PacketRoute* route, const MacAddress& own) noexcept;

  /// Sends the frames added, as many as the channel takes, discards the rest and returns how many
  /// were sent. If not all, errno is the error of the first that was not.
  std::size_t flush(FrameChannel& channel, PortStats& stats) noexcept;

 private:
  static constexpr std::size_t kVectors = 2048;
  using Head = std::array<std::uint8_t,
                          wire::kEthernetHeader + wire::kMaxEnvelope + wire::kMaxTransportHeader>;
  using Trailer = std::array<std::uint8_t, 8>;

  /// Writes the headers from Ethernet to UDP; returns their length in bytes.
  [[nodiscard]] std::size_t put_envelope(Head& head, const wire::TxPacket& packet,
                                         const PacketPeer& peer, const PacketRoute* route,
                                         const MacAddress& own) const noexcept;

  [[nodiscard]] std::uint32_t icrc_of(const wire::TxBurst& burst, const wire::TxPacket& packet,
                                      PacketPeer& peer) const noexcept;

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
