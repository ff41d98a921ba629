// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::sim {

/// Index of a packet in its PacketStore.
enum class PacketId : std::uint32_t {};
/// No packet.
inline constexpr PacketId kNoPacket{~std::uint32_t{0}};
/// Index of a directed link.
enum class LinkId : std::uint32_t {};
/// No link.
inline constexpr LinkId kNoLink{~std::uint32_t{0}};

/// The index itself.
[[nodiscard]] constexpr std::uint32_t value(PacketId id) noexcept {
  return static_cast<std::uint32_t>(id);
}
/// The index itself.
[[nodiscard]] constexpr std::uint32_t value(LinkId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

/// Bytes of a link that an IP packet takes up besides its own.
inline constexpr std::uint32_t kEthernetOverhead = wire::kEthernetLink;
/// Room for the headers of a packet: two IPv6 headers, UDP, transport.
inline constexpr std::size_t kMaxHead =
    wire::envelope_size(false, wire::Encapsulation::ipv6_in_ipv6) + wire::kMaxTransportHeader;

/// Queueing class; strict priority for control.
enum class TrafficClass : std::uint8_t { control, data };

/// A packet in the simulated network. Headers are real bytes as on a wire; of the payload only the
/// length is kept, or the bytes too with HostSettings::carry_payload.
struct alignas(64) Packet {
  // The first cache line has the fields used by queues and links.
  PacketId next = kNoPacket;          ///< next packet in its queue
  std::uint32_t length = 0;           ///< from the outermost IP header to the iCRC, in bytes
  LinkId ingress = kNoLink;           ///< the link by which it reached the current node
  std::uint32_t link_epoch = 0;       ///< of the link that it is on (Link::epoch)
  std::uint16_t head_length = 0;      ///< bytes of `head`
  std::uint16_t inner_ip = 0;         ///< offset of the IP header nearest to UDP
  std::uint16_t udp = 0;              ///< offset of the UDP header
  TrafficClass traffic{};             ///< queueing class
  bool trimmed = false;               ///< payload and iCRC are gone
  bool corrupted = false;             ///< a bit was flipped: the iCRC will be wrong
  bool data = false;                  ///< a data packet with no fate yet (Ledger)
  std::vector<std::uint8_t> payload;  ///< payload, pad and iCRC; empty if not carried
  alignas(64) std::array<std::uint8_t, kMaxHead> head;  ///< outermost IP .. transport header

  /// The outermost IP header.
  [[nodiscard]] wire::Ipv6& outer() noexcept { return *reinterpret_cast<wire::Ipv6*>(head.data()); }
  /// The outermost IP header.
  [[nodiscard]] const wire::Ipv6& outer() const noexcept {
    return *reinterpret_cast<const wire::Ipv6*>(head.data());
  }
  /// The IP header nearest to UDP.
  [[nodiscard]] wire::Ipv6& inner() noexcept {
    return *reinterpret_cast<wire::Ipv6*>(head.data() + inner_ip);
  }
  /// The IP header nearest to UDP.
  [[nodiscard]] const wire::Ipv6& inner() const noexcept {
    return *reinterpret_cast<const wire::Ipv6*>(head.data() + inner_ip);
  }
  /// The UDP header.
  [[nodiscard]] const wire::Udp& udp_header() const noexcept {
    return *reinterpret_cast<const wire::Udp*>(head.data() + udp);
  }
  /// Bytes that it occupies on a link.
  [[nodiscard]] std::uint32_t wire_length() const noexcept { return length + kEthernetOverhead; }

  /// Sets ECN CE in the outermost header.
  void mark_ce() noexcept {
    wire::Ipv6& ip = outer();
    ip.set_first_word(static_cast<std::uint8_t>(ip.traffic_class() | 3), ip.flow_label());
  }

  /// Like wire::trim_packet(), but the payload may be a length only.
  void trim(std::uint8_t dscp) noexcept {
    const std::size_t kept =
        std::min<std::size_t>(wire::kTrimKeep, static_cast<std::size_t>(head_length - udp));
    head_length = static_cast<std::uint16_t>(udp + kept);
    inner().payload_length = static_cast<std::uint16_t>(kept);
    outer().payload_length = static_cast<std::uint16_t>(head_length - sizeof(wire::Ipv6));
    wire::set_dscp(outer(), dscp);
    length = head_length;
    payload.clear();
    trimmed = true;
    traffic = TrafficClass::control;
  }
};

/// All packets of a simulation. References are valid until the packet is given back.
class PacketStore {
 public:
  /// A packet with stale contents. Grows as needed.
  [[nodiscard]] PacketId take() {
    ++in_use_;
    if (free_ == kNoPacket) grow();
    const PacketId id = free_;
    free_ = (*this)[id].next;
    return id;
  }
  /// Frees a packet.
  void give_back(PacketId id) noexcept {
    (*this)[id].next = free_;
    free_ = id;
    --in_use_;
  }
  /// A packet by its id.
  [[nodiscard]] Packet& operator[](PacketId id) noexcept {
    return chunks_[value(id) / kChunk][value(id) % kChunk];
  }
  /// A packet by its id.
  [[nodiscard]] const Packet& operator[](PacketId id) const noexcept {
    return chunks_[value(id) / kChunk][value(id) % kChunk];
  }
  /// Packets taken and not given back.
  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
  /// Packets that memory is allocated for.
  [[nodiscard]] std::size_t capacity() const noexcept { return chunks_.size() * kChunk; }

 private:
  static constexpr std::uint32_t kChunk = 256;

  void grow() {
    const auto first = static_cast<std::uint32_t>(capacity());
    chunks_.push_back(std::make_unique<Packet[]>(kChunk));
    for (std::uint32_t i = kChunk; i-- > 0;) {
      chunks_.back()[i].next = free_;
      free_ = PacketId{first + i};
    }
  }

  std::vector<std::unique_ptr<Packet[]>> chunks_;
  PacketId free_ = kNoPacket;
  std::size_t in_use_ = 0;
};

}  // namespace mrc::inline v0_1::sim
