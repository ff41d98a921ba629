// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// Schedules the probes of ASSUMED_BAD paths (mrc-1.0 §5, [O-6]). A path is tried again after an
/// eighth of the time for which it has been bad, so that an outage lasts hardly longer for the
/// sender than it does, and a path that is bad for good costs little. But never sooner than after
/// the shortest interval, which doubles each time that a path fails soon after it has come back. An
/// indexed heap: all operations are O(log n) and allocate nothing. Not thread-safe.
class ProbeSchedule {
 public:
  /// Room for paths 0 .. paths-1. No interval is longer than `max`, except the shortest one.
  ProbeSchedule(std::size_t paths, Duration max) : slots_(paths), max_(max) {
    heap_.reserve(paths);
  }

  /// Starts probing `path`, which has failed `now`: the first try is due after the shortest
  /// interval, of which `shortest` is the length for a path that does not fail often. Restarts if
  /// it was running.
  void start(PathIndex path, Time now, Duration shortest) noexcept {
    Slot& slot = slots_[path];
    const bool again = slot.ended + kSoon * least(slot, shortest) > now;
    slot.relapses = again ? std::min<std::uint8_t>(slot.relapses + 1, kMostRelapses) : 0;
    begin(path, now, now + least(slot, shortest));
  }
  /// The same, but the first try is due at once, and it does not count as a failure.
  void resume(PathIndex path, Time now) noexcept { begin(path, now, now); }

  /// Stops probing `path`: it is good again, or nobody wants to know. No effect if it was not
  /// running.
  void stop(PathIndex path, Time now) noexcept {
    const PathIndex at = std::exchange(slots_[path].heap_at, kNoPath);
    if (at == kNoPath) return;
    slots_[path].ended = now;
    const PathIndex last = heap_.back();
    heap_.pop_back();
    if (last == path) return;
    place(at, last);
    sift(last);
  }

  /// Stops probing `path` and knows nothing of its past any more: another path takes its place.
  void forget(PathIndex path) noexcept {
    stop(path, Time{});
    slots_[path] = {};
  }

  /// When the next try is due; kNever when no path is being probed.
  [[nodiscard]] Time next() const noexcept {
    return heap_.empty() ? kNever : slots_[heap_.front()].due;
  }

  /// The path to probe now, or kNoPath. A try while the previous one is unanswered ends the run of
  /// successes, so an answer should take less than `shortest`.
  [[nodiscard]] PathIndex poll(Time now, Duration shortest) noexcept {
    if (heap_.empty() || next() > now) return kNoPath;
    const PathIndex path = heap_.front();
    Slot& slot = slots_[path];
    if (slot.awaiting) slot.successes = 0;
    slot.awaiting = true;
    const Duration interval = std::min((now - slot.since) / kPart, max_);
    reschedule(path, now + std::max(interval, least(slot, shortest)));
    return path;
  }

  /// The outstanding try of `path` succeeded: the next one follows after the shortest interval.
  /// Returns the number of consecutive successes (0 when no try was outstanding: each counts once).
  unsigned succeeded(PathIndex path, Time now, Duration shortest) noexcept {
    Slot& slot = slots_[path];
    if (slot.heap_at == kNoPath || !std::exchange(slot.awaiting, false)) return 0;
    if (slot.successes < 255) ++slot.successes;
    reschedule(path, now + least(slot, shortest));
    return slot.successes;
  }

  /// The outstanding try of `path` was answered with ALWAYS_SKIP: no success.
  void failed(PathIndex path) noexcept {
    slots_[path].awaiting = false;
    slots_[path].successes = 0;
  }

 private:
  static constexpr int kPart = 8;  ///< an interval is this part of the time that has passed
  /// A path fails soon if it was good for fewer than so many of its shortest intervals.
  static constexpr int kSoon = 64;
  static constexpr std::uint8_t kMostRelapses = 16;

  struct Slot {
    Time due{};
    Time since{};                     ///< bad since then
    Time ended{Duration::min() / 2};  ///< when probing ended last
    PathIndex heap_at = kNoPath;      ///< kNoPath: not probed
    std::uint8_t relapses = 0;        ///< failures soon after it had come back
    std::uint8_t successes = 0;       ///< consecutive answers
    bool awaiting = false;            ///< the last try is unanswered so far
  };

  [[nodiscard]] Duration least(const Slot& slot, Duration usual) const noexcept {
    return std::max(usual, std::min(usual * (1 << slot.relapses), max_));
  }
  void begin(PathIndex path, Time now, Time due) noexcept {
    Slot& slot = slots_[path];
    slot.since = now;
    slot.successes = 0;
    slot.awaiting = false;
    if (slot.heap_at == kNoPath) {
      slot.heap_at = static_cast<PathIndex>(heap_.size());
      heap_.push_back(path);  // within the reserved capacity: each path is in the heap at most once
    }
    reschedule(path, due);
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
  Duration max_;
};

}  // namespace mrc::inline v0_1::path
