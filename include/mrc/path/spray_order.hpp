// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// Position of one QP in the spraying order. Plain data; valid for the PathSet that created it. All
/// default-constructed cursors start at the same position.
struct Cursor {
  std::uint32_t epoch = 0;     ///< version of the order that the other fields refer to; 0: none
  std::uint32_t random = 1;    ///< state of the QP's own random generator
  std::uint16_t position = 0;  ///< next position in the order
  std::uint16_t stride = 0;    ///< step between positions in this pass, below the order's length
  std::uint16_t left = 0;      ///< positions left in this pass over the order
};
static_assert(sizeof(Cursor) <= 16 && std::is_trivially_copyable_v<Cursor>);

namespace detail {

/// 32 bits from the cursor's own generator: a Weyl sequence through a mixer, for which any state is
/// valid, also zero.
inline std::uint32_t next_random(Cursor& c) noexcept {
  c.random += 0x9E37'79B9u;
  std::uint32_t z = c.random;
  z = (z ^ (z >> 16)) * 0x85EB'CA6Bu;
  z = (z ^ (z >> 13)) * 0xC2B2'AE35u;
  return z ^ (z >> 16);
}

/// The paths that can carry data now (active, GOOD or SKIP, plane up), in spraying order.
///
/// One order is shared by any number of cursors. Positions alternate between planes, with each
/// plane's paths shuffled. Each cursor makes full passes over it, with a random start and
/// stride for each pass. A stride coprime to the length visits every position exactly once; since
/// planes of equal size alternate with a period that divides the length, any run of as many steps
/// as there are planes also visits each plane once.
///
/// Lists and bitmaps by plane answer "any usable path of this plane" without a walk.
class SprayOrder {
 public:
  explicit SprayOrder(std::size_t paths)
      : order_(paths),
        slot_path_(paths + kMaxPlanes * 64, kNoPath),
        good_(slot_path_.size() / 64 + 1) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] PlaneMask planes() const noexcept { return planes_; }
  /// Planes with at least one path that is GOOD, not SKIP.
  [[nodiscard]] PlaneMask good_planes() const noexcept { return good_planes_; }

  /// Rebuilds the order from the entries that belong in it. Linear; allocates nothing.
  void rebuild(std::span<Entry> entries, PlaneMask up, Random& random) noexcept {
    if (++epoch_ == 0) epoch_ = 1;
    collect(entries, up);
    for (unsigned p = 0; p < kMaxPlanes; ++p)
      random.shuffle(std::span<PathIndex>(slot_path_).subspan(first_slot(p), count_[p]));
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
    interleave(random);
  }

  /// The cursor's next position; needs size() > 0.
  PathIndex step(Cursor& c) const noexcept {
    if (c.epoch != epoch_ || c.left == 0) begin_pass(c);
    --c.left;
    const PathIndex path = order_[c.position];
    std::size_t next = std::size_t{c.position} + c.stride;
    if (next >= size_) next -= size_;
    c.position = static_cast<std::uint16_t>(next);
    return path;
  }

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

  /// A GOOD path of the planes in `mask`, other than `a` and `b`; the search starts at a place
  /// chosen by `salt`. kNoPath when there is none.
  [[nodiscard]] PathIndex find_good(PlaneMask mask, std::uint32_t salt, PathIndex a,
                                    PathIndex b) const noexcept {
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
          if (path != a && path != b) return path;
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

  /// The usable paths of a plane (below kMaxPlanes), in no particular order.
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
    for (const Entry& e : entries)
      if (belongs(e)) ++count_[e.plane];
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
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (belongs(entries[i]))
        slot_path_[first_slot(entries[i].plane) + filled[entries[i].plane]++] =
            static_cast<PathIndex>(i);
  }

  /// Merges the planes' lists into the order, in as many rounds as the longest list has paths; each
  /// plane's paths are spread evenly over the rounds.
  void interleave(Random& random) noexcept {
    std::array<std::uint8_t, kMaxPlanes> planes{};
    std::size_t n = 0;
    for (PlaneMask m = planes_; m != 0; m &= m - 1)
      planes[n++] = static_cast<std::uint8_t>(std::countr_zero(m));
    random.shuffle(std::span<std::uint8_t>(planes.data(), n));
    const std::uint32_t rounds = *std::max_element(count_.begin(), count_.end());
    std::array<std::uint32_t, kMaxPlanes> share{};  // paths * count / rounds, accumulated per round
    std::array<std::uint16_t, kMaxPlanes> taken{};
    std::size_t at = 0;
    for (std::uint32_t r = 0; r < rounds; ++r)
      for (std::size_t i = 0; i < n; ++i) {
        const unsigned p = planes[i];
        share[p] += count_[p];
        if (share[p] < rounds) continue;
        share[p] -= rounds;
        order_[at++] = slot_path_[first_slot(p) + taken[p]++];
      }
  }

  /// Starts a pass with a new start and stride.
  void begin_pass(Cursor& c) const noexcept {
    // Primes above kMaxPaths are coprime to every length.
    static constexpr std::array<std::uint32_t, 32> kStrides = {
        1000003, 1010033, 1020101, 1030291, 1040489, 1050811, 1061171, 1071641,
        1082153, 1092757, 1103437, 1114193, 1120019, 1130929, 1141901, 1152937,
        1164043, 1170251, 1181507, 1192847, 1204271, 1210753, 1222373, 1233983,
        1240667, 1252451, 1259317, 1271251, 1283297, 1290371, 1302491, 1309723};
    const std::uint32_t r = next_random(c);
    const auto n = static_cast<std::uint32_t>(size_);
    c.epoch = epoch_;
    c.left = static_cast<std::uint16_t>(size_);
    c.position = static_cast<std::uint16_t>(std::uint64_t{next_random(c)} * n >> 32);
    c.stride = static_cast<std::uint16_t>(kStrides[r % kStrides.size()] % n);
  }

  std::vector<PathIndex> order_;      ///< the positions; the first size_ are valid
  std::vector<PathIndex> slot_path_;  ///< lists by plane, each starting at a multiple of 64
  std::vector<std::uint64_t> good_;   ///< bit per slot: GOOD
  std::array<std::uint16_t, kMaxPlanes> word_{};        ///< first word of each plane in good_
  std::array<std::uint16_t, kMaxPlanes> count_{};       ///< paths of each plane in the order
  std::array<std::uint16_t, kMaxPlanes> good_count_{};  ///< of these, GOOD
  std::size_t size_ = 0;
  std::uint32_t epoch_ = 0;
  PlaneMask planes_ = 0;
  PlaneMask good_planes_ = 0;
};

}  // namespace detail
}  // namespace mrc::inline v0_1::path
