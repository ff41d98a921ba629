// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "probe/changes.hpp"

namespace mrc::probe {

std::vector<Change> Changes::update(WallTime when, const std::vector<Trouble>& troubles) {
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

}  // namespace mrc::probe
