// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mrc/probe/report.hpp"

namespace mrc::inline v0_1::probe {

/// Something went wrong between two sweeps, in another way than before, or is right again.
struct Change {
  WallTime when;
  bool is_back = false;
  Trouble trouble;    ///< is_back: the last one
  Duration lasted{};  ///< is_back: since it was first seen
};

/// What is wrong at present, and what each sweep changes about that.
class Changes {
 public:
  /// Takes the troubles that a sweep has found; returns what is new and what is over.
  std::vector<Change> update(WallTime when, const std::vector<Trouble>& troubles) {
    std::vector<Change> changes;
    for (auto& [what, entry] : present_) ++entry.missed;
    for (const Trouble& trouble : troubles) {
      const auto [at, is_new] = present_.try_emplace(trouble.what, Entry{when, trouble});
      if (is_new || at->second.trouble.kind != trouble.kind)
        changes.push_back({when, false, trouble, {}});
      at->second.trouble = trouble;
      at->second.missed = 0;
    }
    std::erase_if(present_, [&](const auto& item) {
      const Entry& entry = item.second;
      const bool over =
          entry.missed >= (entry.trouble.kind == Trouble::Kind::lossy ? kCleanSweeps : 1);
      if (over) changes.push_back({when, true, entry.trouble, when - entry.since});
      return over;
    });
    return changes;
  }

 private:
  /// A part that loses little loses nothing in some sweeps.
  static constexpr unsigned kCleanSweeps = 5;

  struct Entry {
    WallTime since;
    Trouble trouble;
    unsigned missed = 0;  ///< sweeps since it was last seen
  };

  std::map<std::string, Entry> present_;  ///< by Trouble::what
};

}  // namespace mrc::inline v0_1::probe
