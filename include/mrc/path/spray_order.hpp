// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

namespace detail {

/// The paths that can carry data now (active, GOOD or SKIP, plane up), and a walk over them.
///
/// Each plane has its own list, in a random order that lasts: a path that leaves and comes back
/// finds its old place. A step takes the next path of one plane, whichever planes are free. So all
/// paths of a plane carry the same share whatever happens in the others, and what a host sends to a
/// switch comes at even distances, for which its queue is short (docs/results.md).
///
/// A plane's progress is the number of passes over its list. Steps go to the planes in turn, and
/// keep their progress equal: a plane that has lost some of its paths gets less, so that those left
/// carry no more than all others.
class SprayOrder {
 public:
  static_assert(kMaxPaths + 64 * kMaxPlanes <= 0xFFFF, "slots of 16 bits");

  /// For so many paths. The order of the lists is `random`'s.
  SprayOrder(std::size_t paths, Random& random)
      : sequence_(paths),
        slot_path_(paths + kMaxPlanes * 64, kNoPath),
        good_(slot_path_.size() / 64 + 1) {
    for (std::size_t i = 0; i < paths; ++i) sequence_[i] = static_cast<PathIndex>(i);
    random.shuffle(std::span<PathIndex>(sequence_));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] PlaneMask planes() const noexcept { return planes_; }
  /// Planes with at least one path that is GOOD, not SKIP.
  [[nodiscard]] PlaneMask good_planes() const noexcept { return good_planes_; }

  /// Rebuilds the lists from the entries that belong in them. Linear; allocates nothing.
  void rebuild(std::span<Entry> entries, PlaneMask up) noexcept {
    collect(entries, up);
    std::fill(good_.begin(), good_.end(), std::uint64_t{0});
    good_count_ = {};
    good_planes_ = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      for (std::size_t s = first_slot(p); s < first_slot(p) + count_[p]; ++s) {
        Entry& e = entries[slot_path_[s]];
        e.slot = static_cast<std::uint16_t>(s);
        if (e.health == Health::good) set_good(e);
      }
    }
  }

  /// Moves the walk to a random place.
  void start_anywhere(Random& random) noexcept {
    std::uint32_t planes = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (count_[p] == 0) continue;
      walks_[p].at = random.below(count_[p]);
      if (random.below(++planes) == 0) first_ = static_cast<std::uint8_t>(p);
    }
  }

  /// The next path of the walk, in one of `planes`: not empty, and each of them with paths.
  PathIndex step(PlaneMask planes) noexcept {
    // Mostly it is the turn of the plane behind the last one.
    unsigned p = in_turn(std::rotr(planes, first_));
    if (walks_[p].progress >= newest_ || front_ - walks_[p].progress > walks_[p].most_behind)
      p = next_plane(planes);
    Walk& walk = walks_[p];
    if (walk.at >= count_[p]) walk.at = 0;  // the list has become shorter
    const PathIndex path = slot_path_[first_slot(p) + walk.at++];
    walk.progress += walk.share;
    if (shares_.apply()) [[unlikely]]
      shares_.count_step(p);
    newest_ = walk.progress;
    front_ = std::max(front_, newest_);
    first_ = static_cast<std::uint8_t>((p + 1) % kMaxPlanes);
    return path;
  }

  /// Those of `planes` that may carry a new packet (PlaneShares).
  [[nodiscard]] PlaneMask within_limits(PlaneMask planes) const noexcept {
    return shares_.apply() ? shares_.within_limits(planes) : planes;
  }
  /// A packet sent in `plane` was marked.
  void on_mark(Plane plane) noexcept { shares_.on_mark(plane); }

  /// An entry in the order changed from SKIP to GOOD.
  void set_good(const Entry& e) noexcept {
    good_[e.slot / 64] |= std::uint64_t{1} << (e.slot % 64);
    if (good_count_[e.plane]++ == 0) good_planes_ |= plane_bit(e.plane);
  }
  /// An entry in the order changed from GOOD to SKIP.
  void clear_good(const Entry& e) noexcept {
    good_[e.slot / 64] &= ~(std::uint64_t{1} << (e.slot % 64));
    if (--good_count_[e.plane] == 0) good_planes_ &= ~plane_bit(e.plane);
  }

  /// A GOOD path of the planes in `mask`, other than `avoid`; the search starts at a place chosen
  /// by `salt`. kNoPath when there is none.
  [[nodiscard]] PathIndex find_good(PlaneMask mask, std::uint32_t salt,
                                    PathIndex avoid) const noexcept {
    mask &= good_planes_;
    for (unsigned i = 0; i < kMaxPlanes; ++i) {
      const unsigned p = (salt + i) % kMaxPlanes;
      if ((mask >> p & 1) == 0) continue;
      const std::size_t words = (count_[p] + 63u) / 64;
      for (std::size_t w = 0; w <= words;
           ++w) {  // the first word is visited twice: its rest, finally all of it
        std::uint64_t bits = good_[word_[p] + (salt / 64 + w) % words];
        if (w == 0) bits &= ~std::uint64_t{0} << (salt % 64);
        for (; bits != 0; bits &= bits - 1) {
          const auto bit = static_cast<std::size_t>(std::countr_zero(bits));
          const PathIndex path = slot_path_[(word_[p] + (salt / 64 + w) % words) * 64 + bit];
          if (path != avoid) return path;
        }
      }
    }
    return kNoPath;
  }

  /// Any path of the planes in `mask` except `avoid`, GOOD or SKIP; kNoPath when there is none.
  [[nodiscard]] PathIndex find_any(PlaneMask mask, PathIndex avoid) const noexcept {
    for (mask &= planes_; mask != 0; mask &= mask - 1)
      for (const PathIndex path : plane_paths(static_cast<unsigned>(std::countr_zero(mask))))
        if (path != avoid) return path;
    return kNoPath;
  }

  /// The usable paths of a plane (below kMaxPlanes), in the order of the walk.
  [[nodiscard]] std::span<const PathIndex> plane_paths(unsigned plane) const noexcept {
    return std::span<const PathIndex>(slot_path_).subspan(first_slot(plane), count_[plane]);
  }

 private:
  [[nodiscard]] std::size_t first_slot(unsigned plane) const noexcept {
    return std::size_t{word_[plane]} * 64;
  }

  /// Fills the planes' lists; each starts at its own word of the bitmap.
  void collect(std::span<Entry> entries, PlaneMask up) noexcept {
    const auto belongs = [up](const Entry& e) {
      return e.active && usable(e.health) && (up >> e.plane & 1) != 0;
    };
    count_ = {};
    PlaneMask reduced = 0;
    for (const Entry& e : entries) {
      if (belongs(e)) ++count_[e.plane];
      if (e.active && !usable(e.health)) reduced |= plane_bit(e.plane);
    }
    planes_ = 0;
    size_ = 0;
    std::size_t word = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      word_[p] = static_cast<std::uint16_t>(word);
      word += (count_[p] + 63u) / 64;
      size_ += count_[p];
      if (count_[p] > 0) planes_ |= plane_bit(static_cast<Plane>(p));
    }
    std::array<std::uint16_t, kMaxPlanes> filled{};
    for (const PathIndex path : sequence_) {
      const Entry& e = entries[path];
      if (belongs(e)) slot_path_[first_slot(e.plane) + filled[e.plane]++] = path;
    }
    std::uint64_t largest = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (count_[p] == 0) continue;
      walks_[p].share = kPass / count_[p];
      shares_.set_step(p, walks_[p].share);
      largest = std::max(largest, walks_[p].share);
    }
    for (Walk& walk : walks_) walk.most_behind = kMostBehind * walk.share + largest;
    shares_.set(planes_, reduced);
  }

  /// Which plane is next: the first one in turn that has made less progress than that of the last
  /// step, else the one with the least. A plane that carried nothing for a time, because it was
  /// down or its port busy, makes up for a few packets only.
  [[nodiscard]] unsigned next_plane(PlaneMask planes) noexcept {
    if (front_ >= kLargest) [[unlikely]]
      count_anew();
    unsigned chosen = kMaxPlanes;
    for (PlaneMask m = std::rotr(planes, first_); m != 0; m &= m - 1) {
      const unsigned p = in_turn(m);
      if (chosen == kMaxPlanes || walks_[p].progress < walks_[chosen].progress) chosen = p;
      if (walks_[p].progress < newest_) break;
    }
    Walk& walk = walks_[chosen];
    if (front_ - walk.progress > walk.most_behind) walk.progress = front_ - walk.most_behind;
    return chosen;
  }
  /// The first plane of a mask that begins with first_.
  [[nodiscard]] unsigned in_turn(PlaneMask mask) const noexcept {
    return (first_ + static_cast<unsigned>(std::countr_zero(mask))) % kMaxPlanes;
  }

  /// Takes the same from the progress of all planes, before it exceeds its range.
  void count_anew() noexcept {
    const std::uint64_t taken = front_ - kPass * kMaxPlanes;
    for (Walk& walk : walks_) walk.progress -= std::min(walk.progress, taken);
    newest_ -= std::min(newest_, taken);
    front_ -= taken;
  }

  static constexpr std::uint64_t kPass = PlaneShares::kPass;  ///< progress: one pass
  static constexpr std::uint64_t kLargest = kPass << 24;      ///< count_anew() then
  static constexpr std::uint64_t kMostBehind = 2;             ///< packets

  /// The walk over the list of one plane.
  struct Walk {
    std::uint64_t progress = 0;
    std::uint64_t share = 0;        ///< progress of one step
    std::uint64_t most_behind = 0;  ///< what it makes up for at most
    std::uint32_t at = 0;           ///< next position in the list
  };

  std::vector<PathIndex> sequence_;   ///< all paths, in the order that all lists keep
  std::vector<PathIndex> slot_path_;  ///< lists by plane, each starting at a multiple of 64
  std::vector<std::uint64_t> good_;   ///< bit per slot: GOOD
  std::array<Walk, kMaxPlanes> walks_{};
  PlaneShares shares_;
  std::array<std::uint16_t, kMaxPlanes> word_{};        ///< first word of each plane in good_
  std::array<std::uint16_t, kMaxPlanes> count_{};       ///< paths of each plane in the order
  std::array<std::uint16_t, kMaxPlanes> good_count_{};  ///< of these, GOOD
  std::size_t size_ = 0;
  PlaneMask planes_ = 0;
  PlaneMask good_planes_ = 0;
  std::uint64_t newest_ = 0;  ///< progress of the plane of the last step
  std::uint64_t front_ = 0;   ///< the furthest progress of all planes
  std::uint8_t first_ = 0;    ///< the plane whose turn is next, if it is free
};

}  // namespace detail
}  // namespace mrc::inline v0_1::path
