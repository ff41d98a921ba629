// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/data/memory.hpp"

#include <unistd.h>

#include <algorithm>

#include "mrc/engine/memory.hpp"

namespace mrc_nccl {

Registration* MemoryCache::add(void* address, std::size_t size) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(address) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(address) + size + page - 1) / page * page;
  const Range range{first, end - first};

  const std::lock_guard lock(mutex_);
  auto found = ranges_.find(range);
  if (found == ranges_.end()) {
    // LL and LL128 poll flags that are part of the data.
    auto region = device_.register_memory(reinterpret_cast<void*>(first), range.second,
                                          mrc::Access::remote_write | mrc::Access::line_ordering);
    if (withdrawn_.size() <= kKept) {
      withdrawn_.reserve(ranges_.size() + withdrawn_.size() + 1);  // remove() needs no memory
      found = ranges_.try_emplace(range).first;
    } else {
      withdrawn_.front().key() = range;
      found = ranges_.insert(std::move(withdrawn_.front())).position;
      withdrawn_.erase(withdrawn_.begin());
    }
    found->second.region = std::move(region);
    try {
      by_key_.emplace(found->second.region.rkey(), &found->second);
    } catch (...) {
      withdraw(found);
      throw;
    }
  }
  ++found->second.users;
  return &found->second;
}

bool MemoryCache::remove(Registration* registration) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(ranges_.begin(), ranges_.end(),
                                  [&](const auto& entry) { return &entry.second == registration; });
  if (found == ranges_.end()) return false;
  if (--found->second.users > 0) return true;
  by_key_.erase(registration->region.rkey());
  withdraw(found);
  return true;
}

void MemoryCache::withdraw(Ranges::iterator range) noexcept {
  range->second.region = {};
  withdrawn_.push_back(ranges_.extract(range));
}

bool MemoryCache::write(std::uint32_t rkey, std::uint64_t address, const void* from,
                        std::size_t size) const noexcept {
  auto* to = reinterpret_cast<std::uint8_t*>(address);
  const std::lock_guard lock(mutex_);  // nobody deregisters it meanwhile
  const auto found = by_key_.find(rkey);
  if (found == by_key_.end() || !found->second->holds(to, size)) return false;
  mrc::engine::copy_lines(to, static_cast<const std::uint8_t*>(from), size);
  return true;
}

std::size_t MemoryCache::size() const {
  const std::lock_guard lock(mutex_);
  return ranges_.size();
}

}  // namespace mrc_nccl
