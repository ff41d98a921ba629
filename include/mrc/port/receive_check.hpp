// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/fault_hold.hpp"
#include "mrc/port/port.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::port {

/// The last look at a received packet before it is the engine's: length and iCRC (mrc-1.0 §2.13
/// steps 2 to 4). It stands behind the faults, so that a packet that they damage meets the same
/// check as one that the network has damaged. One thread at a time.
class ReceiveCheck {
 public:
  /// `local`: the address that packets are sent to. Without `icrc` it is cut off and not looked at.
  ReceiveCheck(const IpAddress& local, bool icrc) : local_(local), icrc_(icrc) {}

  /// Hands the packet on to `rx`, which has room, or counts in `stats` what is wrong with it.
  void pass(const RawPacket& raw, RxBurst& rx, PortStats& stats) noexcept {
    wire::RxPacket packet = raw.facts;
    const bool trimmed = packet.trim != wire::Trim::none;  // then there is no iCRC
    const std::size_t tail = trimmed ? 0 : wire::kIcrcSize;
    if (raw.bytes.size() < sizeof(wire::Bth) + tail) {
      ++stats.rx_malformed;
      return;
    }
    packet.bytes = Bytes(raw.bytes).first(raw.bytes.size() - tail);
    if (icrc_ && !trimmed && !intact(raw, packet)) {
      ++stats.rx_bad_icrc;
      return;
    }
    ++stats.rx_packets;
    stats.rx_bytes += raw.bytes.size();
    rx.push(packet);
  }

 private:
  /// A sender's side of the iCRC, kept for the next packet.
  struct Source {
    IpAddress ip{};
    std::uint64_t tag = 0;  ///< 0: empty
    std::uint16_t to_port = 0;
    wire::IcrcPrefix prefix;
  };

  [[nodiscard]] bool intact(const RawPacket& raw, const wire::RxPacket& packet) noexcept {
    Source& source = sources_[packet.source % sources_.size()];
    if (source.tag != packet.source || source.ip != raw.from || source.to_port != raw.to_port) {
      source.ip = raw.from;
      source.tag = packet.source;
      source.to_port = raw.to_port;
      source.prefix = wire::IcrcPrefix::make(raw.from, local_, raw.to_port);
    }
    source.prefix.patch(raw.port, static_cast<std::uint16_t>(packet.udp_length));
    return wire::icrc(source.prefix, packet.bytes) ==
           wire::load_icrc(packet.bytes.data() + packet.bytes.size());
  }

  IpAddress local_;
  bool icrc_;
  std::array<Source, 64> sources_{};
};

}  // namespace mrc::inline v0_1::port
