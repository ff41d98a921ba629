// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/path/expand.hpp"

/// Generation of EVs from fields (mrc-1.0 §3.2 GENERATED, [O-24]). Set-up only.
namespace mrc::inline v0_1::path {

/// The numbers 0 .. count-1 in shuffled order, one at a time, with memory only for those taken: a
/// Fisher-Yates shuffle over a sparse virtual table.
class SparseShuffle {
 public:
  /// count <= 2^63.
  SparseShuffle(std::uint64_t count, std::uint64_t seed) : count_(count), random_(seed) {}

  /// Whether all numbers are taken.
  [[nodiscard]] bool empty() const noexcept { return taken_ == count_; }
  /// The next number; needs !empty().
  [[nodiscard]] std::uint64_t next() {
    const std::uint64_t at = taken_ + random_.next() % (count_ - taken_);
    const std::uint64_t picked = cell(at);
    moved_[at] = cell(taken_);
    moved_.erase(taken_++);
    return picked;
  }

 private:
  [[nodiscard]] std::uint64_t cell(std::uint64_t i) const {
    const auto found = moved_.find(i);
    return found == moved_.end() ? i : found->second;
  }

  std::uint64_t count_;
  std::uint64_t taken_ = 0;
  Random random_;
  std::unordered_map<std::uint64_t, std::uint64_t> moved_;
};

/// Number of EVs that the fields' ranges allow. The fields must have passed check() and use at most
/// 32 bits of EV together, so the product stays below 2^33.
[[nodiscard]] inline std::uint64_t count_values(std::span<const EvField> fields) noexcept {
  std::uint64_t n = 1;
  for (const EvField& f : fields) n *= f.max_val - f.min_val + 1;
  return n;
}

/// The EV number `index` < count_values(fields) in lexicographic order: the last field varies
/// fastest.
[[nodiscard]] inline Result<EvValue> nth_value(std::uint64_t index,
                                               std::span<const EvField> fields) {
  std::vector<std::uint64_t> values(fields.size());
  for (std::size_t i = fields.size(); i > 0; --i) {
    const EvField& f = fields[i - 1];
    const std::uint64_t range = f.max_val - f.min_val + 1;
    values[i - 1] = f.min_val + index % range;
    index /= range;
  }
  return pack(values, fields);
}

}  // namespace mrc::inline v0_1::path
