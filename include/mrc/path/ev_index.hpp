// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path::detail {

/// Maps a reflected EV to a path that has it: open addressing over 16-bit indices, at most half
/// full, so lookups end after a few steps for any value that a peer reflects. Of several paths with
/// the same EV, the first is kept.
class EvIndex {
 public:
  /// An empty index with room for `paths` entries; the only allocation.
  explicit EvIndex(std::size_t paths)
      : full_(std::bit_ceil(2 * std::max<std::size_t>(paths, 1)), kNoPath),
        low_(full_.size(), kNoPath),
        shift_(32 - static_cast<unsigned>(std::countr_zero(full_.size()))) {}

  /// Rebuilds the index from `entries`. Linear; allocates nothing.
  void rebuild(std::span<const Entry> entries) noexcept {
    std::fill(full_.begin(), full_.end(), kNoPath);
    std::fill(low_.begin(), low_.end(), kNoPath);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      insert(full_, entries, static_cast<PathIndex>(i), 0xFFFF'FFFF);
      insert(low_, entries, static_cast<PathIndex>(i), 0xFFFF);
    }
  }

  /// A path with this EV, or kNoPath. IPv4 carries only the low half of a structured EV and
  /// reflects zeros above it, so such a value is also looked up by its low half (mrc-1.0 [O-29]).
  [[nodiscard]] PathIndex find(std::span<const Entry> entries, Ev ev) const noexcept {
    const PathIndex exact = full_[probe(full_, entries, value(ev), 0xFFFF'FFFF)];
    if (exact != kNoPath || (value(ev) >> 16) != 0) return exact;
    return low_[probe(low_, entries, value(ev), 0xFFFF)];
  }

 private:
  /// The cell of `key`, or the empty cell where it would be inserted. Terminates because half of
  /// the cells are empty.
  [[nodiscard]] std::size_t probe(const std::vector<PathIndex>& table,
                                  std::span<const Entry> entries, std::uint32_t key,
                                  std::uint32_t mask) const noexcept {
    std::size_t at = (key & mask) * std::uint32_t{0x9E37'79B1} >> shift_;
    while (table[at] != kNoPath && (value(entries[table[at]].ev) & mask) != (key & mask))
      at = (at + 1) & (table.size() - 1);
    return at;
  }
  void insert(std::vector<PathIndex>& table, std::span<const Entry> entries, PathIndex path,
              std::uint32_t mask) noexcept {
    PathIndex& cell = table[probe(table, entries, value(entries[path].ev), mask)];
    if (cell == kNoPath) cell = path;
  }

  std::vector<PathIndex> full_;  ///< by all 32 bits
  std::vector<PathIndex> low_;   ///< by the low 16 bits
  unsigned shift_;               ///< the hash is the top bits of a product
};

}  // namespace mrc::inline v0_1::path::detail
