// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "mrc/device.hpp"

namespace mrc_nccl {

/// Registered memory for copies of what a connection sends: taken in order, free again in order,
/// when the peer has acknowledged them. One thread.
class CopyRing {
 public:
  static constexpr std::size_t kBytes = 512 << 10;

  /// Throws mrc::Error, std::bad_alloc.
  explicit CopyRing(mrc::Device& device)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(kBytes)),
        region_(device.register_memory(memory_.get(), kBytes, mrc::Access::none)) {}

  /// Is there room for `size` bytes, up to kBytes, side by side?
  [[nodiscard]] bool has_room(std::size_t size) const noexcept {
    return begin_of(size) + size - free_ <= kBytes;
  }
  /// Copies them; there is room. What is copied next comes behind.
  [[nodiscard]] mrc::Sge copy(const void* data, std::size_t size) noexcept {
    std::byte* const to = memory_.get() + begin_of(size) % kBytes;
    std::memcpy(to, data, size);
    end_ = begin_of(size) + size;
    return {to, static_cast<std::uint32_t>(size), region_.lkey()};
  }
  /// Where the newest copy ends; grows.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  /// What was copied since end() had this value is not sent.
  void take_back(std::uint64_t end) noexcept { end_ = end; }
  /// All that was copied before end() had this value has been acknowledged.
  void release(std::uint64_t end) noexcept { free_ = end; }

 private:
  /// Behind the newest copy, or at the start of the memory if it would not fit there.
  [[nodiscard]] std::uint64_t begin_of(std::size_t size) const noexcept {
    const std::size_t left = kBytes - end_ % kBytes;
    return size <= left ? end_ : end_ + left;
  }

  std::unique_ptr<std::byte[]> memory_;
  mrc::MemoryRegion region_;
  std::uint64_t end_ = 0, free_ = 0;  // positions; modulo kBytes, offsets in memory
};

}  // namespace mrc_nccl
