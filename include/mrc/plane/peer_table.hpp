// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::port {

/// A port's address table: one entry per peer, Entry{} for unknown ones. One thread at a time.
template <class Entry>
class PeerTable {
 public:
  /// Empties the entry of a peer and returns it. Throws Error if the peer's number is too large.
  /// Invalidates pointers to other entries.
  [[nodiscard]] Entry& claim(PeerId id) {
    if (value(id) >= kMaxPeers)
      throw Error(Errc::no_resources, "peer number " + std::to_string(value(id)) +
                                          " is over the limit of " + std::to_string(kMaxPeers));
    if (value(id) >= entries_.size()) entries_.resize(value(id) + std::size_t{1});
    return entries_[value(id)] = {};
  }
  /// Empties the entry; unknown peers are ignored.
  void remove(PeerId id) noexcept {
    if (value(id) < entries_.size()) entries_[value(id)] = {};
  }
  /// The entry, which may be empty; null beyond the table.
  [[nodiscard]] Entry* find(PeerId id) noexcept {
    return value(id) < entries_.size() ? &entries_[value(id)] : nullptr;
  }
  /// The same.
  [[nodiscard]] const Entry* find(PeerId id) const noexcept {
    return value(id) < entries_.size() ? &entries_[value(id)] : nullptr;
  }

  /// All entries, also empty ones, in the order of the peers' numbers.
  [[nodiscard]] auto begin() noexcept { return entries_.begin(); }
  /// End of the entries.
  [[nodiscard]] auto end() noexcept { return entries_.end(); }

 private:
  static constexpr std::uint32_t kMaxPeers = 1u << 20;
  std::vector<Entry> entries_;
};

}  // namespace mrc::inline v0_1::port
