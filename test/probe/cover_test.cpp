// SPDX-License-Identifier: Apache-2.0
#include "probe/cover.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "mrc/core/random.hpp"

using mrc::probe::smallest_cover;
using Sets = std::vector<std::vector<std::size_t>>;

namespace cover_test {

/// The size of the smallest cover, by trying all.
std::size_t least(const Sets& sets, std::size_t elements) {
  std::size_t best = sets.size();
  std::vector<unsigned> masks;
  unsigned wanted = 0;
  for (const auto& set : sets) {
    masks.push_back(0);
    for (const std::size_t e : set) masks.back() |= 1u << e;
    wanted |= masks.back();
  }
  CHECK(elements <= 32);
  for (unsigned choice = 0; choice < 1u << sets.size(); ++choice) {
    unsigned covered = 0;
    for (std::size_t s = 0; s < sets.size(); ++s)
      if ((choice >> s & 1) != 0) covered |= masks[s];
    if (covered == wanted) best = std::min(best, std::size_t(std::popcount(choice)));
  }
  return best;
}

TEST_CASE("cover: nothing to cover, and what can't be covered") {
  CHECK(smallest_cover({}, 0).empty());
  CHECK(smallest_cover({}, 5).empty());
  CHECK(smallest_cover({{}, {}}, 2).empty());
  CHECK(smallest_cover({{}, {1}}, 3) == std::vector<std::size_t>{1});
}

TEST_CASE("cover: of equally good sets the first is taken") {
  CHECK(smallest_cover({{0, 1}, {0, 1}}, 2) == std::vector<std::size_t>{0});
  CHECK(smallest_cover({{0}, {1}, {0, 1}}, 2) == std::vector<std::size_t>{2});
}

TEST_CASE("cover: better than greed") {
  // Greed takes the middle one first and needs all three.
  CHECK(smallest_cover({{1, 2, 3, 4}, {0, 1, 2}, {3, 4, 5}}, 6) == std::vector<std::size_t>{1, 2});
}

TEST_CASE("cover: as small as it can be, on random sets") {
  mrc::Random random(7);
  for (unsigned round = 0; round < 300; ++round) {
    const std::size_t elements = 1 + random.below(12);
    Sets sets(1 + random.below(10));
    for (auto& set : sets)
      for (std::size_t e = 0; e < elements; ++e)
        if (random.chance(0.3)) set.push_back(e);
    const auto cover = smallest_cover(sets, elements);
    std::vector<bool> covered(elements, false), coverable(elements, false);
    for (const std::size_t s : cover)
      for (const std::size_t e : sets[s]) covered[e] = true;
    for (const auto& set : sets)
      for (const std::size_t e : set) coverable[e] = true;
    CHECK(covered == coverable);
    CHECK(cover.size() == least(sets, elements));
  }
}

TEST_CASE("cover: a problem without end gets an answer") {
  mrc::Random random(3);
  Sets sets(400);
  for (auto& set : sets)
    for (std::size_t e = 0; e < 300; ++e)
      if (random.chance(0.03)) set.push_back(e);
  std::vector<bool> covered(300, false);
  for (const std::size_t s : smallest_cover(sets, 300))
    for (const std::size_t e : sets[s]) covered[e] = true;
  CHECK(std::count(covered.begin(), covered.end(), true) >= 299);
}

}  // namespace cover_test
