// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace mrc::inline v0_1 {

/// Asks for `bytes` of memory from `first` on to be brought into the cache, without waiting.
/// Addresses that are not mapped do no harm.
[[gnu::always_inline]] inline void prefetch(const void* first, std::size_t bytes = 1) noexcept {
  constexpr std::size_t kLine = 64;
  const auto* line = static_cast<const char*>(first);
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(line + at);
  if (bytes > 1) __builtin_prefetch(line + bytes - 1);  // the first byte need not begin a line
  asm volatile("");  // GCC takes a function that only prefetches for one without effect
}

}  // namespace mrc::inline v0_1
