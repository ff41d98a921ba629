// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mrc::inline v0_1::detail {

/// Adds the counters of `more` to those of `sum`: structs of nothing but std::uint64_t.
template <class Counters>
void add_counters(Counters& sum, const Counters& more) noexcept {
  using Array = std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)>;
  static_assert(sizeof(Array) == sizeof(Counters));
  auto a = std::bit_cast<Array>(sum);
  const auto b = std::bit_cast<Array>(more);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  sum = std::bit_cast<Counters>(a);
}

}  // namespace mrc::inline v0_1::detail
