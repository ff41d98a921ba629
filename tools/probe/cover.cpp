// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "probe/cover.hpp"

namespace mrc::probe {

namespace detail {

/// The search behind smallest_cover(): branch and bound, starting with a greedy solution.
class CoverSearch {
 public:
  CoverSearch(const std::vector<std::vector<std::size_t>>& sets, std::size_t elements)
      : chosen_(sets.size(), false) {
    std::vector<std::vector<std::size_t>> owners(elements);
    for (std::size_t s = 0; s < sets.size(); ++s)
      for (const std::size_t element : sets[s]) owners[element].push_back(s);
    // Elements with the same owners need no cover of their own.
    const std::set<std::vector<std::size_t>> unique(owners.begin(), owners.end());
    for (const auto& row : unique)
      if (!row.empty()) rows_.push_back(row);
    // Elements with the fewest sets first: the search tree is narrow at its root.
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
  }

  [[nodiscard]] std::vector<std::size_t> run() {
    best_ = greedy();
    search(0);
    std::sort(best_.begin(), best_.end());
    return best_;
  }

 private:
  using Row = std::vector<std::size_t>;  ///< the sets that cover an element

  [[nodiscard]] bool covered(const Row& row) const {
    return std::any_of(row.begin(), row.end(), [this](std::size_t s) { return chosen_[s]; });
  }

  [[nodiscard]] std::vector<std::size_t> greedy() {
    std::vector<std::size_t> taken;
    for (;;) {
      std::vector<std::size_t> gain(chosen_.size(), 0);
      for (const Row& row : rows_)
        if (!covered(row))
          for (const std::size_t s : row) ++gain[s];
      const auto most = std::max_element(gain.begin(), gain.end());
      if (most == gain.end() || *most == 0) break;
      taken.push_back(static_cast<std::size_t>(most - gain.begin()));
      chosen_[taken.back()] = true;
    }
    for (const std::size_t s : taken) chosen_[s] = false;
    return taken;
  }

  void search(std::size_t row) {
    while (row < rows_.size() && covered(rows_[row])) ++row;
    if (row == rows_.size()) {
      if (path_.size() < best_.size()) best_ = path_;
      return;
    }
    if (path_.size() + 1 >= best_.size()) return;
    for (const std::size_t s : rows_[row]) {
      if (steps_ == kMaxSteps) return;
      ++steps_;
      chosen_[s] = true;
      path_.push_back(s);
      search(row + 1);
      path_.pop_back();
      chosen_[s] = false;
    }
  }

  /// A search that takes more steps returns the best cover found so far.
  static constexpr std::size_t kMaxSteps = 200'000;

  std::vector<Row> rows_;
  std::vector<bool> chosen_;
  std::vector<std::size_t> path_, best_;
  std::size_t steps_ = 0;
};

}  // namespace detail

std::vector<std::size_t> smallest_cover(const std::vector<std::vector<std::size_t>>& sets,
                                        std::size_t elements) {
  return detail::CoverSearch(sets, elements).run();
}

}  // namespace mrc::probe
