// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mrc/device.hpp"

namespace mrc_nccl {

/// A registered range of memory, as NCCL knows it (mhandle). Valid for all connections of a NIC.
struct Registration {
  mrc::MemoryRegion region;  ///< empty: it was deregistered
  std::size_t users = 0;     ///< calls of MemoryCache::add() that returned it

  [[nodiscard]] bool registered() const noexcept { return region.length() != 0; }
  /// Does it hold these bytes?
  [[nodiscard]] bool holds(const void* data, std::size_t size) const noexcept {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(region.address());
    return offset <= region.length() && size <= region.length() - offset;
  }
};

/// The memory that NCCL has registered with one NIC. NCCL registers the same buffers for many
/// connections: each range is registered once, and deregistered with its last user. A stale
/// handle is recognised until kKept further ranges have been deregistered. Any thread.
class MemoryCache {
 public:
  explicit MemoryCache(mrc::Device& device) : device_(device) {}

  /// Registers whole pages around the range. Throws mrc::Error.
  [[nodiscard]] Registration* add(void* address, std::size_t size);
  /// False if it is not a registration of this NIC, or has no user left.
  [[nodiscard]] bool remove(Registration* registration) noexcept;
  /// Copies into memory that is registered with that key, as the device would. False, and nothing
  /// is written, if it is not, or not any more, or does not hold these bytes.
  [[nodiscard]] bool write(std::uint32_t rkey, std::uint64_t address, const void* from,
                           std::size_t size) const noexcept;
  /// Ranges registered now.
  [[nodiscard]] std::size_t size() const;

 private:
  using Range = std::pair<std::uintptr_t, std::size_t>;  // first byte, length; whole pages
  using Ranges = std::map<Range, Registration>;

  static constexpr std::size_t kKept = 64;

  void withdraw(Ranges::iterator range) noexcept;

  mrc::Device& device_;
  mutable std::mutex mutex_;
  Ranges ranges_;
  std::vector<Ranges::node_type> withdrawn_;  // handles outlive what they stand for; oldest first
  std::unordered_map<std::uint32_t, const Registration*> by_key_;
};

}  // namespace mrc_nccl
