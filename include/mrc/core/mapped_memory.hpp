// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace mrc::inline v0_1::detail {

/// Is every page of [address, address + length) mapped, with whatever rights? Neither touches nor
/// pins a page: MS_ASYNC only looks the range up. A range that wraps around is not.
[[nodiscard]] inline bool mapped(const void* address, std::size_t length) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t begin = first & ~(page - 1), end = first + length;
  if (end < first) return false;
  return ::msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace mrc::inline v0_1::detail
