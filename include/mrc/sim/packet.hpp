// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/overhead.hpp"
#include "mrc/wire/packet_build.hpp"
#include "mrc/wire/packet_trim.hpp"

namespace mrc::inline v0_1::sim {

/// Index of a packet in its PacketStore.
enum class PacketId : std::uint32_t {};
inline constexpr PacketId kNoPacket{~std::uint32_t{0}};
/// Index of a directed link.
enum class LinkId : std::uint32_t {};
inline constexpr LinkId kNoLink{~std::uint32_t{0}};

[[nodiscard]] constexpr std::uint32_t value(PacketId id) noexcept {
  return static_cast<std::uint32_t>(id);
}
[[nodiscard]] constexpr std::uint32_t value(LinkId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

/// Bytes of a link that an IP packet takes up besides its own.
inline constexpr std::uint32_t kEthernetOverhead = wire::kEthernetLink;
/// Room for the headers of a packet: two IPv6 headers, UDP, transport.
inline constexpr std::size_t kMaxHead =
    wire::envelope_size(false, wire::Encapsulation::ipv6_in_ipv6) + wire::kMaxTransportHeader;

/// Strict priority: the control class is served first.
enum class TrafficClass : std::uint8_t { control, data };

/// A packet on its way. Its headers are there byte by byte, as on a wire; of the payload only the
/// length, or the bytes as well when the hosts are told so (HostSettings::carry_payload).
struct alignas(64) Packet {
  // The first cache line is what queues and links look at.
  PacketId next = kNoPacket;          ///< in a queue
  std::uint32_t length = 0;           ///< from the outermost IP header to the iCRC, in bytes
  LinkId ingress = kNoLink;           ///< the link by which it came to the present node
  std::uint32_t link_epoch = 0;       ///< of the link that it is on (Link::epoch)
  std::uint16_t head_length = 0;      ///< bytes of `head`
  std::uint16_t inner_ip = 0;         ///< offset of the IP header nearest to UDP
  std::uint16_t udp = 0;              ///< offset of the UDP header
  TrafficClass traffic{};             ///< queueing class
  bool trimmed = false;               ///< payload and iCRC are gone
  bool corrupted = false;             ///< a bit was turned over: the iCRC will be wrong
  std::vector<std::uint8_t> payload;  ///< payload, pad and iCRC; empty if not carried
  alignas(64) std::array<std::uint8_t, kMaxHead> head;  ///< outermost IP .. transport header

  [[nodiscard]] wire::Ipv6& outer() noexcept { return *reinterpret_cast<wire::Ipv6*>(head.data()); }
  [[nodiscard]] const wire::Ipv6& outer() const noexcept {
    return *reinterpret_cast<const wire::Ipv6*>(head.data());
  }
  [[nodiscard]] wire::Ipv6& inner() noexcept {
    return *reinterpret_cast<wire::Ipv6*>(head.data() + inner_ip);
  }
  [[nodiscard]] const wire::Ipv6& inner() const noexcept {
    return *reinterpret_cast<const wire::Ipv6*>(head.data() + inner_ip);
  }
  [[nodiscard]] const wire::Udp& udp_header() const noexcept {
    return *reinterpret_cast<const wire::Udp*>(head.data() + udp);
  }
  /// Bytes that it takes up on a link.
  [[nodiscard]] std::uint32_t wire_length() const noexcept { return length + kEthernetOverhead; }

  void mark_ce() noexcept {
    wire::Ipv6& ip = outer();
    ip.set_first_word(static_cast<std::uint8_t>(ip.traffic_class() | 3), ip.flow_label());
  }

  /// What wire::trim_packet() does to whole packets, on one whose payload may be a length only.
  void trim(std::uint8_t dscp) noexcept {
    const std::size_t kept =
        std::min<std::size_t>(wire::kTrimKeep, static_cast<std::size_t>(head_length - udp));
    head_length = static_cast<std::uint16_t>(udp + kept);
    inner().payload_length = static_cast<std::uint16_t>(kept);
    outer().payload_length = static_cast<std::uint16_t>(head_length - sizeof(wire::Ipv6));
    outer().set_dscp(dscp);
    length = head_length;
    payload.clear();
    trimmed = true;
    traffic = TrafficClass::control;
  }
};

/// All packets of a simulation. References stay valid while the packet is not given back.
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
  void give_back(PacketId id) noexcept {
    (*this)[id].next = free_;
    free_ = id;
    --in_use_;
  }
  [[nodiscard]] Packet& operator[](PacketId id) noexcept {
    return chunks_[value(id) / kChunk][value(id) % kChunk];
  }
  [[nodiscard]] const Packet& operator[](PacketId id) const noexcept {
    return chunks_[value(id) / kChunk][value(id) % kChunk];
  }
  /// Packets under way.
  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
  /// Packets that there is memory for.
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
