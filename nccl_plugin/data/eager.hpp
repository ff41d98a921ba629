// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

/// Small messages that leave before their receive is known (an eager protocol): the sender writes
/// them into a ring of the receiver, which copies them into NCCL's buffer. That saves the time in
/// which a clear-to-send record travels.
///
/// Which receive gets a message is clear without a word: of the messages with a tag the n-th
/// belongs to the n-th receive with that tag. The sender learns from the receiver's records which
/// receives its messages had, and how many places of the ring are free again.
namespace mrc_nccl {

/// A message as it is in the ring: only what is used of it is written. Little-endian.
struct EagerMessage {
  static constexpr std::size_t kHeader = 16;
  /// Bytes of data at most: with the header, what an inline request carries.
  static constexpr std::size_t kMostData = 1024 - kHeader;

  /// Number of the first receive of which the sender still needs the record.
  std::uint64_t group = 0;
  std::int32_t tag = 0;
  std::uint32_t unused = 0;
  std::array<std::byte, kMostData> data;
};
static_assert(sizeof(EagerMessage) == 1024 && offsetof(EagerMessage, data) == 16);

/// Messages that the receiver need not have taken: half of kSlots, so that their receives never
/// occupy all the records (Receiver::irecv()). A power of two, since messages are counted modulo
/// 2^32.
inline constexpr unsigned kEagerSlots = 16;
using EagerRing = std::array<EagerMessage, kEagerSlots>;

/// What is remembered of eager messages, the oldest first.
template <class Entry>
class EagerList {
 public:
  [[nodiscard]] unsigned size() const noexcept { return size_; }
  [[nodiscard]] bool full() const noexcept { return size_ == kEagerSlots; }
  /// There is one.
  [[nodiscard]] const Entry& oldest() const noexcept { return entries_[0]; }
  /// There is room.
  void add(const Entry& entry) noexcept { entries_[size_++] = entry; }
  /// Takes out the oldest one with that tag.
  [[nodiscard]] std::optional<Entry> take(std::int32_t tag) noexcept {
    for (unsigned i = 0; i < size_; ++i) {
      if (entries_[i].tag != tag) continue;
      const Entry entry = entries_[i];
      for (unsigned k = i + 1; k < size_; ++k) entries_[k - 1] = entries_[k];
      --size_;
      return entry;
    }
    return std::nullopt;
  }

 private:
  std::array<Entry, kEagerSlots> entries_{};
  unsigned size_ = 0;
};

}  // namespace mrc_nccl
