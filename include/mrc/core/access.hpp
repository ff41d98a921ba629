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
  /// For programs that poll flags between the data, as NCCL's protocols LL and LL128 do. Lines of
  /// 128 bytes, aligned to that, may become visible in any order, but those of one packet in
  /// ascending order. Within a line, bytes become visible in ascending order, in aligned words of 8
  /// bytes that are never torn: who sees a word (by an acquire load) also sees everything before it
  /// in the line. That holds, in whatever order
  /// packets come, for a line, or a part of one, that lies in one packet: so for all lines of a
  /// message if its first byte is aligned to 128, since packets are multiples of 128 bytes long.
  /// The last bytes of a message become visible as the others do. Stronger than relaxed_ordering,
  /// which has no effect beside it.
  line_ordering = 8,
  remote_read = 16,    ///< peers may READ
  remote_atomic = 32,  ///< peers may execute atomics; implies local_write
};
/// Both sets of rights together.
[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// All that peers can be allowed.
inline constexpr Access kPeerRights =
    Access::remote_write | Access::remote_read | Access::remote_atomic;
/// True if `set` holds all rights of `right`.
[[nodiscard]] constexpr bool has(Access set, Access right) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(right)) ==
         static_cast<unsigned>(right);
}

/// The rights that registering memory with `access` gives: remote_write and remote_atomic add
/// local_write, and line_ordering removes relaxed_ordering.
[[nodiscard]] constexpr Access in_force(Access access) noexcept {
  auto bits = static_cast<unsigned>(access);
  if (has(access, Access::remote_write) || has(access, Access::remote_atomic))
    bits |= static_cast<unsigned>(Access::local_write);
  if (has(access, Access::line_ordering)) bits &= ~static_cast<unsigned>(Access::relaxed_ordering);
  return static_cast<Access>(bits);
}

}  // namespace mrc::inline v0_1
