// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::engine {

/// A registered range of memory.
struct MemoryEntry {
  std::uint8_t* address = nullptr;  ///< first byte
  std::uint64_t length = 0;         ///< bytes
  std::uint32_t key = 0;            ///< L_Key and R_Key
  PdId pd{};                        ///< protection domain of the region
  Access access = Access::none;     ///< rights (in_force())
  bool live = false;                ///< false: deregistered, the entry is free
  std::uint32_t uses = 0;           ///< SGEs of posted requests in it
  std::uint32_t copies = 0;         ///< copies of its bytes that ports still read

  /// True if the last bytes of a message must not be visible before everything in front of them.
  [[nodiscard]] bool in_message_order() const noexcept {
    return !has(access, Access::relaxed_ordering) && !has(access, Access::line_ordering);
  }
};

/// Why a remote access is refused.
enum class AccessFault : std::uint8_t { none, key, pd, bounds, access };

/// The memory regions of one engine. A key is an index, with as many bits as the limit needs, and
/// random bits, so that a deregistered or guessed key does not open another region. One thread.
class MemoryTable {
 public:
  /// Most regions of a table: at least 16 bits of a key are random.
  static constexpr std::uint32_t kMaxRegions = 1u << 16;

  /// `limit`: number of regions that fit, up to kMaxRegions.
  explicit MemoryTable(std::uint32_t limit)
      : limit_(limit), index_bits_(std::max(1u, static_cast<unsigned>(std::bit_width(limit - 1)))) {
    entries_.reserve(limit);
  }

  /// Registers [address, address + length). Errc::no_resources at the limit.
  Result<std::uint32_t> add(void* address, std::uint64_t length, Access access, PdId pd,
                            SecretRandom& random) {
    std::uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (entries_.size() < limit_) {
      index = static_cast<std::uint32_t>(entries_.size());
      entries_.emplace_back();
      free_.reserve(entries_.capacity());
    } else {
      return Errc::no_resources;
    }
    MemoryEntry& e = entries_[index];
    const std::uint32_t tag = 1 + random.below((1u << (32 - index_bits_)) - 1);  // a key is never 0
    const std::uint32_t key = (tag << index_bits_) | index;
    e = {static_cast<std::uint8_t*>(address), length, key, pd, access, true, 0, 0};
    return e.key;
  }

  /// The same under the key that another table has given out; its number must be free in this one.
  Result<std::uint32_t> add_as(std::uint32_t key, void* address, std::uint64_t length,
                               Access access, PdId pd) {
    const std::uint32_t index = index_of(key);
    if (index >= limit_) return Errc::no_resources;
    while (entries_.size() <= index) {
      free_.push_back(static_cast<std::uint32_t>(entries_.size()));
      entries_.emplace_back();
      free_.reserve(entries_.capacity());
    }
    if (std::erase(free_, index) == 0) return Errc::in_use;
    entries_[index] = {static_cast<std::uint8_t*>(address), length, key, pd, access, true, 0, 0};
    return key;
  }

  /// Invalidates a key. No posted request may use its region any more. Its number is not given out
  /// again while ports hold copies of its bytes.
  void remove(std::uint32_t key) noexcept {
    if (MemoryEntry* e = find(key)) {
      e->live = false;
      if (e->copies == 0) free_.push_back(index_of(key));
    }
  }

  /// A port holds a copy of bytes of this region. Precondition: `key` is valid.
  void hold(std::uint32_t key) noexcept { ++entries_[index_of(key)].copies; }
  /// A port no longer reads them; the key may be invalid by now.
  void release(std::uint32_t key) noexcept {
    MemoryEntry& e = entries_[index_of(key)];
    if (--e.copies == 0 && !e.live) free_.push_back(index_of(key));
  }
  /// Copies that ports hold of the bytes of a region, also after remove().
  [[nodiscard]] std::uint32_t copies(std::uint32_t key) const noexcept {
    const std::uint32_t index = index_of(key);
    return index < entries_.size() && entries_[index].key == key ? entries_[index].copies : 0;
  }

  /// The region of a key, or null.
  [[nodiscard]] MemoryEntry* find(std::uint32_t key) noexcept {
    const std::uint32_t index = index_of(key);
    if (index >= entries_.size()) return nullptr;
    MemoryEntry& e = entries_[index];
    return e.live && e.key == key ? &e : nullptr;
  }

  /// May a peer of a queue pair in `pd` write [address, address + length) under `key`? Sets
  /// `region` if so.
  [[nodiscard]] AccessFault check_remote_write(std::uint32_t key, PdId pd, std::uint64_t address,
                                               std::uint64_t length,
                                               const MemoryEntry** region) noexcept {
    return check_remote(key, pd, address, length, Access::remote_write, region);
  }
  /// The same for other rights.
  [[nodiscard]] AccessFault check_remote(std::uint32_t key, PdId pd, std::uint64_t address,
                                         std::uint64_t length, Access right,
                                         const MemoryEntry** region) noexcept {
    const MemoryEntry* e = find(key);
    if (e == nullptr) return AccessFault::key;
    if (e->pd != pd) return AccessFault::pd;
    if (!has(e->access, right)) return AccessFault::access;
    if (!inside(*e, address, length)) return AccessFault::bounds;
    *region = e;
    return AccessFault::none;
  }

  /// May a request of a queue pair in `pd` use this SGE, for which it needs these rights?
  [[nodiscard]] Errc check_local(const Sge& sge, PdId pd, Access rights) noexcept {
    const MemoryEntry* e = find(sge.lkey);
    if (e == nullptr) return Errc::invalid_lkey;
    if (e->pd != pd) return Errc::wrong_pd;
    if (!has(e->access, rights)) return Errc::access_denied;
    return inside(*e, reinterpret_cast<std::uint64_t>(sge.address), sge.length)
               ? Errc::ok
               : Errc::invalid_lkey;
  }

  /// Is [address, address + length) in the region?
  [[nodiscard]] static bool inside(const MemoryEntry& e, std::uint64_t address,
                                   std::uint64_t length) noexcept {
    const auto base = reinterpret_cast<std::uint64_t>(e.address);
    return address >= base && address - base <= e.length && length <= e.length - (address - base);
  }

  /// True if a registered region belongs to `pd`.
  [[nodiscard]] bool uses_pd(PdId pd) const noexcept {
    for (const auto& e : entries_)
      if (e.live && e.pd == pd) return true;
    return false;
  }

 private:
  [[nodiscard]] std::uint32_t index_of(std::uint32_t key) const noexcept {
    return key & ((1u << index_bits_) - 1);
  }

  std::uint32_t limit_;
  unsigned index_bits_;  ///< of a key; the other bits are random
  std::vector<MemoryEntry> entries_;
  std::vector<std::uint32_t> free_;
};

}  // namespace mrc::inline v0_1::engine
