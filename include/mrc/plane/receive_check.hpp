// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/fault_hold.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::port {

/// Checks the length of received packets, computes their iCRC for the engine to judge (mrc-1.0
/// §2.13 steps 2 to 4), and appends them to a burst. Runs after fault injection, so that injected
/// damage is detected like real damage. A packet that says that its iCRC covers its head alone
/// (wire::Bth::head_check()) is taken at its word if it comes from an address of take_heads(); the
/// bit of others may have changed on the way and means nothing. One thread at a time.
class ReceiveCheck {
 public:
  /// `local`: the destination address of the packets. If `icrc` is false, the iCRC is removed
  /// and passes for right.
  ReceiveCheck(const IpAddress& local, bool icrc) : local_(local), icrc_(icrc) {}

  /// Packets from that address may have an iCRC that covers their head alone, until forget_heads()
  /// has been called as often. Set-up; throws std::bad_alloc, and changes nothing then.
  void take_heads(const IpAddress& from);
  /// Undoes one take_heads().
  void forget_heads(const IpAddress& from) noexcept;

  /// Appends the packet to `rx`, which must have room, or counts in `stats` why it is dropped.
  void pass(const RawPacket& raw, RxBurst& rx, PortStats& stats) noexcept;

 private:
  /// The part of the iCRC that all packets of one sender share: a cache entry.
  struct Source {
    IpAddress ip{};
    std::uint64_t tag = 0;  ///< 0: empty
    std::uint16_t to_port = 0;
    bool heads = false;  ///< one of heads_: see take_heads()
    wire::IcrcPrefix prefix;
  };

  /// An address of take_heads().
  struct Heads {
    IpAddress ip{};
    std::uint32_t times = 0;
  };

  [[nodiscard]] Heads* find_heads(const IpAddress& from) noexcept;
  void forget_sources() noexcept;
  [[nodiscard]] std::uint32_t check_of(const RawPacket& raw, const wire::RxPacket& packet) noexcept;

  IpAddress local_;
  bool icrc_;
  std::array<Source, 64> sources_{};
  std::vector<Heads> heads_;
};

}  // namespace mrc::inline v0_1::port
