// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace mrc::check_tool {

/// A secret that both sides know by TCP: packets without it are nobody's.
using Token = std::array<std::uint8_t, 16>;

/// The head of a UDP probe; zeros follow up to its size. Numbers are in network byte order.
///
///     8   "MRCCHECK"
///     16  token
///     1   kind: 1 request, 2 answer, 3 and 4 request for a piece of each kind
///     1   plane of who asks
///     1   plane of who answers
///     1   path: which source port of the sender's
///     2   round
///     2   request: bytes of the answer that is wanted, of all packets together; 0: none
///
/// A piece is what leaves the sender as one, to be cut into packets by the kernel or the NIC (GSO):
/// packets of one length, or with a shorter one at the end.
struct ProbeHead {
  enum class Kind : std::uint8_t { request = 1, answer = 2, for_equal = 3, for_shorter_end = 4 };
  static constexpr std::size_t kSize = 32;

  Token token{};
  Kind kind = Kind::request;
  std::uint8_t asking = 0, answering = 0;
  std::uint8_t path = 0;
  std::uint16_t round = 0;
  std::uint16_t wanted = 0;

  friend bool operator==(const ProbeHead&, const ProbeHead&) = default;
};

/// Bytes of a packet of a piece, but for a shorter end; and of a piece, by the kind of request for
/// it.
inline constexpr std::size_t kPiecePacket = 400;
[[nodiscard]] constexpr std::size_t piece_bytes(ProbeHead::Kind kind) noexcept {
  return kind == ProbeHead::Kind::for_equal         ? 3 * kPiecePacket
         : kind == ProbeHead::Kind::for_shorter_end ? 2 * kPiecePacket + kPiecePacket / 2
                                                    : 0;
}

/// Writes the head to the front of a packet, which has room for it.
void put_head(const ProbeHead& head, std::span<std::uint8_t> packet) noexcept;
/// Nothing if the packet is none of these.
[[nodiscard]] std::optional<ProbeHead> read_head(std::span<const std::uint8_t> packet) noexcept;

}  // namespace mrc::check_tool
