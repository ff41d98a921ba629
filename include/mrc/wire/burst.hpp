// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::wire {

/// Packets passed between the engine and a port, in bursts. A packet here is the transport part
/// only: BTH .. payload and pad. The port adds and removes IP, UDP and the iCRC.

/// Whether a received packet was trimmed on its way, by its DSCP (mrc-1.0 §1.12).
enum class Trim : std::uint8_t { none, trimmed, trimmed_last_hop };

/// One received packet, whose IP and UDP lengths are checked. `bytes` points into the port's
/// buffers and is valid until its next receive().
struct RxPacket {
  Bytes bytes;                   ///< BTH .. payload and pad, without the iCRC
  std::uint64_t source = 0;      ///< tag of the sender's IP address (Port::add_peer), 0: unknown
  std::uint32_t udp_length = 0;  ///< length field of the UDP header, also when trimmed
  Ev entropy{};                  ///< EV as seen on the wire (mrc-1.0 §3.1, to be reflected)
  Plane plane = 0;               ///< plane of the receiving port
  Ecn ecn = Ecn::not_ect;        ///< of the outermost IP header
  Trim trim = Trim::none;        ///< read from the DSCP
  /// The port places payload by itself, and a copy of the same data packet may still be on its way
  /// to memory. What depends on it is completed after Engine::on_settled() has named its PSN.
  bool unsettled = false;
  /// iCRC in the packet minus the computed one, modulo 2^32, which the engine judges; 0 for a
  /// trimmed packet.
  std::uint32_t check = 0;
  /// Bytes of payload that the port has placed by itself. `bytes` then ends in front of the
  /// payload, with a pad count of 0.
  std::uint32_t placed = 0;
  /// Of datagrams and endpoint requests (has_origin()): of the IP header; valid as long as `bytes`.
  /// Null: not known.
  const Origin* origin = nullptr;
};

/// A data packet, as its receiver names it.
struct PacketName {
  Qpn qpn{};  ///< of the receiving queue pair
  Psn psn;    ///< of the packet

  friend bool operator==(const PacketName&, const PacketName&) = default;
};

/// Number of a copy of payload that a port holds after transmit(); see TxPacket::copy.
enum class CopyId : std::uint32_t { none = 0 };

/// A contiguous part of the payload, in the user's memory.
struct TxSge {
  const std::uint8_t* data;  ///< first byte
  std::uint32_t length;      ///< bytes
  /// Of Port::register_memory(); 0: memory of the engine, to be read before transmit() returns.
  std::uint32_t region = 0;
};

/// Longest transport header: BTH 12 + SETH and CC_STATE 36; data: 12 + 4 + 4 + 16 + 4.
inline constexpr std::size_t kMaxTransportHeader = 48;

/// One packet to send: header, payload SGEs, and the path that the engine chose.
struct TxPacket {
  std::array<std::uint8_t, kMaxTransportHeader> header;  ///< BTH .. ImmDt, from header[0]
  std::uint8_t header_length = 0;                        ///< bytes used in `header`
  std::uint8_t pad = 0;              ///< zero bytes (0..3) between payload and iCRC
  std::uint8_t dscp = 0;             ///< 6 bit
  Ecn ecn = Ecn::not_ect;            ///< for the outermost IP header
  std::uint16_t sge_count = 0;       ///< SGEs of this packet, in TxBurst::sges()
  std::uint32_t first_sge = 0;       ///< index of the first SGE in the burst
  std::uint32_t payload_length = 0;  ///< sum of the SGEs, without pad
  PeerId peer{};                     ///< destination
  Ev entropy{};                      ///< EV of the path
  std::uint16_t port_path = 0;       ///< index of the path among the port's own paths
  Plane plane = 0;                   ///< plane (NIC port) to send on
  Qpn owner{};  ///< local queue pair of a data packet, to return it to if the port does not take it
  std::uint32_t check_seed = 0;  ///< added to the iCRC, modulo 2^32
  /// Not `none`: the port may read the payload after transmit(), until Port::take_released() names
  /// this number.
  CopyId copy = CopyId::none;

  /// Bytes from BTH to iCRC; add 8 for the UDP length field.
  [[nodiscard]] std::uint32_t transport_length() const noexcept {
    return header_length + payload_length + pad + std::uint32_t{kIcrcSize};
  }
};

/// Consecutive packets of one burst with the same plane, peer and path: what a port can hand to
/// the kernel in one GSO call or to a NIC with one doorbell.
struct TxGroup {
  std::uint32_t first;  ///< index of the first packet in the burst
  std::uint32_t count;  ///< number of packets
  Plane plane;          ///< plane of all of them
  /// The packets probe what becomes of pieces: one piece in spite of Port::send_singly().
  bool one_piece = false;
};

/// A fixed-capacity burst, filled by Engine::poll_transmit(), read by ports. Not thread-safe.
class TxBurst {
 public:
  /// At most `packets` packets with `sges` payload SGEs between them.
  explicit TxBurst(std::size_t packets = 256, std::size_t sges = 1024)
      : packets_(packets), sges_(sges), groups_(packets) {}

  void clear() noexcept {
    packet_count_ = sge_count_ = group_count_ = control_groups_ = 0;
    open_ = false;
  }
  [[nodiscard]] bool empty() const noexcept { return packet_count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return packet_count_; }
  /// Packets that still fit.
  [[nodiscard]] std::size_t room() const noexcept { return packets_.size() - packet_count_; }
  /// Payload SGEs that still fit.
  [[nodiscard]] std::size_t sge_room() const noexcept { return sges_.size() - sge_count_; }

  /// The groups, in the order of appending.
  [[nodiscard]] std::span<const TxGroup> groups() const noexcept {
    return {groups_.data(), group_count_};
  }
  /// How many of the first groups begin with control packets; data follow in the others.
  [[nodiscard]] std::size_t control_groups() const noexcept { return control_groups_; }
  [[nodiscard]] std::span<const TxPacket> packets(const TxGroup& g) const noexcept {
    return {packets_.data() + g.first, g.count};
  }
  [[nodiscard]] std::span<const TxPacket> packets() const noexcept {
    return {packets_.data(), packet_count_};
  }
  [[nodiscard]] std::span<const TxSge> sges(const TxPacket& p) const noexcept {
    return {sges_.data() + p.first_sge, p.sge_count};
  }

  /// Engine: the next packet to fill in; needs room() > 0. Its fields hold stale values. Call
  /// commit() when peer, plane and path are set, before the next append().
  [[nodiscard]] TxPacket& append() noexcept {
    TxPacket& p = packets_[packet_count_++];
    p.first_sge = static_cast<std::uint32_t>(sge_count_);
    p.sge_count = 0;
    p.payload_length = 0;
    p.pad = 0;
    p.check_seed = 0;
    p.copy = CopyId::none;
    return p;
  }
  /// Engine: the packet appended last.
  [[nodiscard]] TxPacket& newest() noexcept { return packets_[packet_count_ - 1]; }
  /// Engine: drops it, before its commit().
  void take_back() noexcept { --packet_count_; }
  /// Engine: adds an SGE of payload to it; needs sge_room() > 0.
  void add_sge(const std::uint8_t* data, std::uint32_t length, std::uint32_t region) noexcept {
    TxPacket& p = packets_[packet_count_ - 1];
    sges_[sge_count_++] = {data, length, region};
    ++p.sge_count;
    p.payload_length += length;
  }
  /// Engine: closes it and puts it into a group.
  void commit() noexcept {
    const TxPacket& p = packets_[packet_count_ - 1];
    if (open_) {
      TxGroup& g = groups_[group_count_ - 1];
      const TxPacket& head = packets_[g.first];
      if (g.plane == p.plane && head.peer == p.peer && head.port_path == p.port_path) {
        ++g.count;
        return;
      }
    }
    groups_[group_count_++] = {static_cast<std::uint32_t>(packet_count_ - 1), 1, p.plane};
    open_ = true;
  }
  /// Engine: the same for a packet that must leave alone, to show what becomes of single ones.
  void commit_alone() noexcept {
    open_ = false;
    commit();
    open_ = false;
  }
  /// Engine: the same for one that is to leave in one piece with the one before it, committed alone
  /// or by this call.
  void commit_behind() noexcept {
    TxGroup& g = groups_[group_count_ - 1];
    ++g.count;
    g.one_piece = true;
  }
  /// Engine: the packets so far are control packets, and no others are.
  void end_control() noexcept { control_groups_ = group_count_; }

 private:
  std::vector<TxPacket> packets_;
  std::vector<TxSge> sges_;
  std::vector<TxGroup> groups_;
  std::size_t packet_count_ = 0;
  std::size_t sge_count_ = 0;
  std::size_t group_count_ = 0;
  std::size_t control_groups_ = 0;
  bool open_ = false;  ///< the newest group takes further packets
};

/// An endpoint request (mrc-1.0 §5) of a host that is no peer, or without tag: an EV probe, or a
/// port status, which changes nothing. A driver that has a path to it answers.
struct UnconnectedRequest {
  std::uint64_t source = 0;              ///< RxPacket::source
  IpAddress from{};                      ///< sender; unspecified: the port can't see it
  Ev entropy{};                          ///< as received
  std::uint16_t id = 0;                  ///< number of the request
  std::uint16_t timestamp = 0;           ///< of the request; the response copies it
  std::uint8_t slot = 0;                 ///< of the process that asks, if it is OpenMRC
  Plane plane = 0;                       ///< in which it arrived
  EndpointOp op = EndpointOp::ev_probe;  ///< what it asks
};

/// The DSCP values (6 bit) of a fabric's packet classes (mrc-1.0 §1.14). They are the operator's
/// choice and must agree on all hosts and switches.
struct DscpMap {
  std::uint8_t no_trim = 0;            ///< data that must not be trimmed
  std::uint8_t trimmable = 4;          ///< data and reliability probes
  std::uint8_t trimmable_retx = 8;     ///< retransmissions
  std::uint8_t trimmed = 12;           ///< set by a switch that trims
  std::uint8_t trimmed_last_hop = 16;  ///< set by the switch before the receiver that trims
  std::uint8_t control = 46;           ///< SACK, NACK, Transport ACK, endpoint responses

  /// Equal in all classes.
  friend constexpr bool operator==(const DscpMap&, const DscpMap&) = default;

  /// All values fit 6 bits, and hosts send neither value for trimmed packets. Those two may be
  /// equal (then all count as trimmed on the path), and so may the classes that hosts send.
  [[nodiscard]] constexpr bool valid() const noexcept {
    for (const std::uint8_t sent : {no_trim, trimmable, trimmable_retx, control})
      if (sent > 63 || sent == trimmed || sent == trimmed_last_hop) return false;
    return trimmed <= 63 && trimmed_last_hop <= 63;
  }

  [[nodiscard]] constexpr Trim classify(std::uint8_t dscp) const noexcept {
    if (dscp == trimmed) return Trim::trimmed;
    if (dscp == trimmed_last_hop) return Trim::trimmed_last_hop;
    return Trim::none;
  }
};

}  // namespace mrc::inline v0_1::wire
