// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1 {

/// Access rights of a memory region; a set of bits. Local reads are always allowed; remote_write
/// implies local_write.
enum class Access : std::uint8_t {
  none = 0,
  local_write = 1,
  remote_write = 2,
  /// Bytes may become visible in any order. Without it, the last bytes of a message become visible
  /// after all bytes before them, for programs that poll the last byte instead of a completion.
  relaxed_ordering = 4,
};
/// Both sets of rights together.
[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// True if `set` holds all rights of `right`.
[[nodiscard]] constexpr bool has(Access set, Access right) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(right)) ==
         static_cast<unsigned>(right);
}

}  // namespace mrc::inline v0_1
