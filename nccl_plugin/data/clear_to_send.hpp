// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "nccl_plugin/abi/types.hpp"
#include "nccl_plugin/data/eager.hpp"

/// The ring by which a receiver tells the sender where to write. The receiver writes records into
/// the sender's memory, one or several with an RDMA write of one packet; the sender polls it.
/// Records are little-endian.
namespace mrc_nccl {

static_assert(std::endian::native == std::endian::little, "records are read as they are");

/// Grouped receives in flight per connection.
inline constexpr unsigned kSlots = nccl_abi::kMaxRequests;
/// Buffers of one grouped receive.
inline constexpr unsigned kMaxGroup = 8;

/// Where one send of a group goes.
struct Target {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t size = 0;  ///< bytes
  std::int32_t tag = 0;
  /// Of a record's first target: eager messages before this one, modulo 2^32, need no place in the
  /// ring any more.
  std::uint32_t taken = 0;
};
static_assert(sizeof(Target) == 24);

/// One grouped receive. `ready` is its last word, which becomes visible last
/// (Access::line_ordering), and targets are stored from the end, so that a record of n of them is
/// written as one range that ends with it.
struct alignas(256) ClearToSend {
  std::array<std::byte, 56> unused{};
  std::array<Target, kMaxGroup> targets{};
  std::uint64_t ready = 0;  ///< see make_ready()

  /// Target `i` of a group of `n`.
  [[nodiscard]] static constexpr std::size_t index(unsigned n, unsigned i) noexcept {
    return kMaxGroup - n + i;
  }
  /// Where a record of n targets begins, in bytes.
  [[nodiscard]] static constexpr std::size_t begin(unsigned n) noexcept {
    return sizeof(ClearToSend) - sizeof(std::uint64_t) - n * sizeof(Target);
  }
  /// The word that says: the receive `number` (counted from 0) has `n` targets. Never 0.
  [[nodiscard]] static constexpr std::uint64_t make_ready(std::uint64_t number,
                                                          unsigned n) noexcept {
    return (number + 1) << 8 | n;
  }
};
static_assert(sizeof(ClearToSend) == 256 && offsetof(ClearToSend, ready) == 248);
static_assert(offsetof(ClearToSend, targets) + sizeof(ClearToSend::targets) == 248);

using ClearToSendRing = std::array<ClearToSend, kSlots>;

/// What the immediate data of a write says: which receive and which buffer of it. A send that is
/// too large for the buffer sends no data but this, with `too_large`. Of an `eager` message: its
/// slot in the EagerRing.
struct Immediate {
  unsigned slot = 0;
  unsigned index = 0;
  bool too_large = false;
  bool eager = false;

  [[nodiscard]] constexpr std::uint32_t encode() const noexcept {
    return (too_large ? 0x8000'0000u : 0u) | (eager ? 0x4000'0000u : 0u) | slot << 8 | index;
  }
  [[nodiscard]] static constexpr Immediate decode(std::uint32_t value) noexcept {
    return {(value & 0x3FFF'FFFFu) >> 8, value & 0xFF, (value & 0x8000'0000u) != 0,
            (value & 0x4000'0000u) != 0};
  }
};

/// What the peer writes to: of a sender the records, of a receiver the messages.
struct Mailbox {
  ClearToSendRing records{};
  EagerRing messages{};
};

}  // namespace mrc_nccl
