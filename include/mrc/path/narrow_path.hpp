// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// Which bad paths towards one destination carry small packets and not those of full size, while
/// others of their plane carry both: one hop has too small an MTU. Data leaves such a path alone,
/// as any bad one; only that people learn of it depends on this. (SizeTrials is about whole
/// planes.)
///
/// Bad paths are probed in full size. Of one of them at a time, some of these rounds have a small
/// probe beside it: kRounds in a row in which that alone is answered find the path. Each is found
/// once.
///
/// Sans-IO: the caller sends the probes. No allocation. One thread.
class NarrowPath {
 public:
  /// Rounds that find a path.
  static constexpr std::uint8_t kRounds = 3;
  /// What fails for a shorter time is no matter of MTUs.
  static constexpr Duration kFirstWait = std::chrono::milliseconds(20);
  /// Shortest time of a round, whatever the round-trip time: hosts are late at times.
  static constexpr Duration kShortestWait = std::chrono::milliseconds(1);
  /// A path that was not probed for so long is on trial no more.
  static constexpr Duration kLongestWait = std::chrono::seconds(1);

  /// A bad path is probed in full size now. True: a small probe is to be sent by it, too.
  [[nodiscard]] bool on_full_probe(PathIndex path, Duration round_trip, Time now) noexcept {
    if (found_ != kNoPath || told(path)) return false;
    if (path != path_) {
      if (path_ != kNoPath && now - seen_ < kLongestWait) return false;
      path_ = path;
      since_ = seen_ = now;
      rounds_ = 0;
      asking_ = false;
      return false;
    }
    seen_ = now;
    if (now - since_ < kFirstWait) return false;
    if (asking_) {
      if (now - asked_ < std::max(kShortestWait, 2 * round_trip)) return false;
      if (!small_answered_) {  // it is dead: another one's turn
        path_ = kNoPath;
        return false;
      }
      if (++rounds_ >= kRounds) {
        found_ = std::exchange(path_, kNoPath);
        told_ |= bit(found_);
        return false;
      }
    }
    asking_ = true;
    small_answered_ = false;
    asked_ = now;
    return true;
  }
  /// A single probe on that path, which was sent at `sent`, was answered.
  void on_answer(PathIndex path, bool full, Time sent) noexcept {
    if (path != path_) return;
    if (full)
      path_ = kNoPath;
    else if (asking_ && sent >= asked_)
      small_answered_ = true;
  }

  /// Was one found since take()?
  [[nodiscard]] bool found() const noexcept { return found_ != kNoPath; }
  /// The path that was found, or kNoPath. The next one is looked for after that.
  [[nodiscard]] PathIndex take() noexcept { return std::exchange(found_, kNoPath); }

 private:
  // Beyond 64 paths, some stand for others: enough to tell people where to look.
  [[nodiscard]] static std::uint64_t bit(PathIndex path) noexcept {
    return std::uint64_t{1} << (path % 64);
  }
  [[nodiscard]] bool told(PathIndex path) const noexcept { return (told_ & bit(path)) != 0; }

  Time since_{};                 ///< when the trial of the path began
  Time seen_{};                  ///< when it was last probed in full size
  Time asked_{};                 ///< when the present round began
  std::uint64_t told_ = 0;       ///< those that were found, modulo 64
  PathIndex path_ = kNoPath;     ///< on trial
  PathIndex found_ = kNoPath;    ///< until take()
  std::uint8_t rounds_ = 0;      ///< in which only the small probe was answered
  bool asking_ = false;          ///< a round has begun
  bool small_answered_ = false;  ///< in the present one
};

}  // namespace mrc::inline v0_1::path
