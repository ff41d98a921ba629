// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "probe/report.hpp"

namespace mrc::probe {

/// A finding that appeared, changed its kind or ended between two sweeps.
struct Change {
  WallTime when;         ///< start of the sweep that found it
  bool is_back = false;  ///< it ended
  Trouble trouble;       ///< is_back: as last seen
  Duration lasted{};     ///< is_back: since it was first seen
};

/// Tracks the findings of successive sweeps. One thread at a time.
class Changes {
 public:
  /// Takes the findings of the latest sweep, which started at `when`. Returns what is new, has
  /// changed its kind or is over; a lossy part counts as over after five sweeps without a loss.
  std::vector<Change> update(WallTime when, const std::vector<Trouble>& troubles);

 private:
  /// A part with few losses has sweeps without any.
  static constexpr unsigned kCleanSweeps = 5;

  struct Entry {
    WallTime since;
    Trouble trouble;
    unsigned missed = 0;  ///< sweeps since it was last seen
  };

  std::map<std::string, Entry> present_;  ///< by Trouble::what
};

}  // namespace mrc::probe
