// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// Schedules the probes of ASSUMED_BAD paths (mrc-1.0 §5, [O-6]): the first try `first` after the
/// path became bad, then at intervals that double up to `max`. An answer resets the interval, so
/// that the remaining successes come quickly. An indexed heap: all operations are O(log n) and
/// allocate nothing. Not thread-safe.
class ProbeSchedule {
 public:
  /// Room for paths 0 .. paths-1. 0 < first <= max.
  ProbeSchedule(std::size_t paths, Duration first, Duration max)
      : slots_(paths), first_(first), max_(max) {
    heap_.reserve(paths);
  }

  /// Starts probing `path`, with the first try at `due`. Restarts if it was running.
  void start(PathIndex path, Time due) noexcept {
    Slot& slot = slots_[path];
    slot.level = 0;
    slot.successes = 0;
    slot.awaiting = false;
    if (slot.heap_at == kNoPath) {
      slot.heap_at = static_cast<PathIndex>(heap_.size());
      heap_.push_back(path);  // within the reserved capacity: each path is in the heap at most once
    }
    reschedule(path, due);
  }

  /// Stops probing `path`; no effect if it was not running.
  void stop(PathIndex path) noexcept {
    const PathIndex at = std::exchange(slots_[path].heap_at, kNoPath);
    if (at == kNoPath) return;
    const PathIndex last = heap_.back();
    heap_.pop_back();
    if (last == path) return;
    place(at, last);
    sift(last);
  }

  /// When the next try is due; kNever when no path is being probed.
  [[nodiscard]] Time next() const noexcept {
    return heap_.empty() ? kNever : slots_[heap_.front()].due;
  }

  /// The path to probe now, or kNoPath. Schedules its next try at least `floor` later, so that an
  /// answer can arrive before it counts as missing. A try while the previous one is unanswered ends
  /// the run of successes.
  [[nodiscard]] PathIndex poll(Time now, Duration floor) noexcept {
    if (heap_.empty() || next() > now) return kNoPath;
    const PathIndex path = heap_.front();
    Slot& slot = slots_[path];
    if (slot.awaiting) slot.successes = 0;
    slot.awaiting = true;
    // The interval after try k (from 0) is first * 2^(k+1), cut at max.
    if (interval(slot.level) < max_) ++slot.level;
    reschedule(path, now + std::max(interval(slot.level), floor));
    return path;
  }

  /// The outstanding try of `path` succeeded. Returns the number of consecutive successes (0 when
  /// no try was outstanding: each try counts once).
  unsigned succeeded(PathIndex path, Time now) noexcept {
    Slot& slot = slots_[path];
    if (slot.heap_at == kNoPath || !std::exchange(slot.awaiting, false)) return 0;
    if (slot.successes < 255) ++slot.successes;
    slot.level = 0;
    reschedule(path, now + first_);
    return slot.successes;
  }

  /// The outstanding try of `path` was answered with ALWAYS_SKIP: no success.
  void failed(PathIndex path) noexcept {
    slots_[path].awaiting = false;
    slots_[path].successes = 0;
  }

 private:
  struct Slot {
    Time due{};
    PathIndex heap_at = kNoPath;  ///< kNoPath: not probed
    std::uint8_t level = 0;       ///< doublings so far
    std::uint8_t successes = 0;   ///< consecutive answers
    bool awaiting = false;        ///< the last try is unanswered so far
  };
  static_assert(sizeof(Slot) == 16);

  [[nodiscard]] Duration interval(unsigned level) const noexcept {
    // Doubles stepwise, since a shift could overflow for a large max.
    Duration d = first_;
    for (unsigned i = 0; i < level && d < max_; ++i) d = d > max_ / 2 ? max_ : d * 2;
    return std::min(d, max_);
  }

  void place(PathIndex at, PathIndex path) noexcept {
    heap_[at] = path;
    slots_[path].heap_at = at;
  }
  void reschedule(PathIndex path, Time due) noexcept {
    slots_[path].due = due;
    sift(path);
  }
  /// Ties go to the lower index, for reproducible runs.
  [[nodiscard]] bool earlier(PathIndex a, PathIndex b) const noexcept {
    return slots_[a].due != slots_[b].due ? slots_[a].due < slots_[b].due : a < b;
  }
  /// Restores the heap order after the due time of `path` changed.
  void sift(PathIndex path) noexcept {
    std::size_t at = slots_[path].heap_at;
    while (at > 0 && earlier(path, heap_[(at - 1) / 2])) {
      place(static_cast<PathIndex>(at), heap_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && earlier(heap_[child + 1], heap_[child])) ++child;
      if (!earlier(heap_[child], path)) break;
      place(static_cast<PathIndex>(at), heap_[child]);
      at = child;
    }
    place(static_cast<PathIndex>(at), path);
  }

  std::vector<Slot> slots_;
  std::vector<PathIndex> heap_;
  Duration first_;
  Duration max_;
};

}  // namespace mrc::inline v0_1::path
