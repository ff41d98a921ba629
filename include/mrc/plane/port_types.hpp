// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"

/// What a port and its driver exchange beside wire::TxBurst.
namespace mrc::inline v0_1::port {

/// What a port can do; probed when it is opened.
struct Capabilities {
  std::uint32_t max_packet = 0;      ///< largest transport packet, BTH .. iCRC, in bytes
  std::uint32_t max_burst = 1;       ///< packets of one path that it can send with one call
  std::uint64_t receive_buffer = 0;  ///< bytes of unread traffic that it holds before it drops
  bool segmentation = false;         ///< one call sends a burst (GSO)
  bool coalescing = false;           ///< one receive can bring a burst (GRO)
  bool batching = true;          ///< delays packets to work on many: its RTT is not the network's
  bool exact_icrc = false;       ///< sees every field that the iCRC covers
  bool outer_headers = false;    ///< sees ECN and DSCP of the outermost header
  bool trimmed_packets = false;  ///< sees packets that switches have trimmed (mrc-1.0 §1.12)
  bool holds_payload = false;    ///< may read payload after transmit(): TxPacket::copy
  bool places_payload = false;   ///< may write payload to its place: RxPacket::placed
};

/// Received packets, filled by Port::receive(). Fixed capacity; allocated once.
class RxBurst {
 public:
  /// Room for `capacity` packets.
  explicit RxBurst(std::size_t capacity = 512) {
    packets_.reserve(capacity);
    origins_.reserve(capacity);
  }
  /// Forgets all packets.
  void clear() noexcept {
    packets_.clear();
    origins_.clear();
  }
  /// How many more packets it takes.
  [[nodiscard]] std::size_t room() const noexcept { return packets_.capacity() - packets_.size(); }
  /// True if there are none.
  [[nodiscard]] bool empty() const noexcept { return packets_.empty(); }
  /// Needs room() > 0.
  void push(const wire::RxPacket& packet) noexcept { packets_.push_back(packet); }
  /// The same for a packet that has_origin(), whose RxPacket::origin will be a copy of `origin`.
  void push(wire::RxPacket packet, const wire::Origin& origin) noexcept {
    packet.origin = &origins_.emplace_back(origin);
    packets_.push_back(packet);
  }
  /// Removes the packets for which `gone` holds.
  template <class F>
  void erase_if(F&& gone) {
    std::erase_if(packets_, gone);
  }
  /// The packets, in order of arrival.
  [[nodiscard]] std::span<const wire::RxPacket> packets() const noexcept { return packets_; }

 private:
  std::vector<wire::RxPacket> packets_;
  std::vector<wire::Origin> origins_;  ///< of those that have one
};

/// A registered memory region, as a port is told of it.
struct MemorySpan {
  std::uint32_t key = 0;            ///< L_Key and R_Key; TxSge::region
  std::uint8_t* address = nullptr;  ///< first byte
  std::uint64_t length = 0;         ///< bytes
  Access access = Access::none;     ///< rights
};

}  // namespace mrc::inline v0_1::port
