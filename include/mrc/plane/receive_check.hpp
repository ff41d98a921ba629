// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/fault_hold.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::port {

/// Checks the length of received packets, computes their iCRC for the engine to judge (mrc-1.0
/// §2.13 steps 2 to 4), and appends them to a burst. Runs after fault injection, so that injected
/// damage is detected like real damage. One thread at a time.
class ReceiveCheck {
 public:
  /// `local`: the destination address of the packets. If `icrc` is false, the iCRC is removed
  /// and passes for right.
  ReceiveCheck(const IpAddress& local, bool icrc) : local_(local), icrc_(icrc) {}

  /// Appends the packet to `rx`, which must have room, or counts in `stats` why it is dropped.
  void pass(const RawPacket& raw, RxBurst& rx, PortStats& stats) noexcept;

 private:
  /// The part of the iCRC that all packets of one sender share: a cache entry.
  struct Source {
    IpAddress ip{};
    std::uint64_t tag = 0;  ///< 0: empty
    std::uint16_t to_port = 0;
    wire::IcrcPrefix prefix;
  };

  [[nodiscard]] std::uint32_t check_of(const RawPacket& raw, const wire::RxPacket& packet) noexcept;

  IpAddress local_;
  bool icrc_;
  std::array<Source, 64> sources_{};
};

}  // namespace mrc::inline v0_1::port

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/plane/impl/receive_check.ipp"
#endif
