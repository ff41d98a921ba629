// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "mrc/profiles.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/expand.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::detail {

/// An EV as packets carry it.
struct ExpandedEv {
  path::EvValue fields{};  ///< the packet fields of the format, from the first bit on
  Ev name{};               ///< the 32 bits that SACKs reflect; equal only for copies of an EV
  Plane plane = 0;         ///< the port that it leaves by

  friend bool operator==(const ExpandedEv&, const ExpandedEv&) = default;
};

/// An EV profile that is ONLINE, as path sets are made of it. Entry i is path i of every peer that
/// is reached with the profile. Does not change: a changed profile has another table.
struct EvTable {
  struct Entry {
    ProfileEv ev;
    ExpandedEv expanded;
    bool denied = false;
    std::uint32_t writes = 0;  ///< of its state by the controller
  };

  ProfileId profile = 0;
  EvProfileMode mode = EvProfileMode::automatic;
  path::EvMode format = path::EvMode::udp;  ///< not in AUTO mode
  std::uint32_t ev_count = 0;
  std::uint16_t min_active = 1;
  std::uint8_t event_mask = 0;
  std::vector<Entry> entries;  ///< empty in AUTO mode

  /// Paths that carry data from the start. More gain little (mrc-1.0 §3.2): the rest are backups.
  static constexpr std::uint32_t kActive = 128;
};

/// A table, shared by the profile and the peers that use it.
using EvTablePtr = std::shared_ptr<const EvTable>;

/// What a change of an EV profile means for the peers that use it.
struct EvUpdate {
  /// An entry whose state the controller has written.
  struct Written {
    path::PathIndex path = 0;
    bool denied = false;
  };
  EvTablePtr table;                       ///< null: the profile is not ONLINE
  std::vector<path::PathIndex> replaced;  ///< entries with another EV
  std::vector<Written> written;           ///< what they are after all operations
};

/// What a profile that has become another means for the peers that use it. Its array keeps its
/// size.
[[nodiscard]] inline EvUpdate changes(const EvTable& before, EvTablePtr is) {
  EvUpdate update;
  for (std::size_t i = 0; i < std::min(before.entries.size(), is->entries.size()); ++i) {
    const EvTable::Entry &old = before.entries[i], &now = is->entries[i];
    const auto path = static_cast<path::PathIndex>(i);
    if (old.expanded != now.expanded)
      update.replaced.push_back(path);
    else if (old.denied != now.denied || old.writes != now.writes)
      update.written.push_back({path, now.denied});
  }
  update.table = std::move(is);
  return update;
}

}  // namespace mrc::inline v0_1::detail
