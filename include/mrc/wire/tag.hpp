// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/wire/bth.hpp"

/// Verification tags: what OpenMRC peers add to packets so that nobody can forge them who does not
/// see them. An extension, agreed on when queue pairs are connected (ConnectionInfo::tag).
namespace mrc::inline v0_1::wire {

/// The verification tag of a queue pair: random bits that all packets sent to it carry.
///
///     bits  0 .. 31   added to the iCRC, modulo 2^32
///     bits 32 .. 51   in the BTH, where other peers have constants: p_key 16, inv-res 4
///     bits 52 .. 63   in endpoint requests and responses only, which have no PSN of a window
///
/// A trimmed packet has lost its iCRC, and keeps the bits in its BTH.
class Tag {
 public:
  /// No tag: the iCRC is plain, and p_key is the default one.
  constexpr Tag() noexcept = default;
  /// `bits` as in the table above; 0: no tag.
  constexpr explicit Tag(std::uint64_t bits) noexcept : bits_(bits == 0 ? kNone : bits) {}

  /// A tag made of random bits. `checked`: the receiving port checks the iCRC; else nothing is to
  /// be added to it. Differs from no tag.
  [[nodiscard]] static constexpr Tag make(std::uint64_t random, bool checked) noexcept {
    if (!checked) random &= ~std::uint64_t{0xFFFFFFFF};
    return Tag((random & kHeaderBits) == kNone || random == 0 ? random ^ std::uint64_t{1} << 40
                                                              : random);
  }

  /// True if there is one.
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return bits_ != kNone; }
  /// As it is told to the peer; 0: no tag.
  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return *this ? bits_ : 0; }

  /// Added to the iCRC.
  [[nodiscard]] constexpr std::uint32_t check() const noexcept {
    return static_cast<std::uint32_t>(bits_);
  }
  /// In the BTH: 20 bits, p_key first.
  [[nodiscard]] constexpr std::uint32_t header() const noexcept {
    return static_cast<std::uint32_t>((bits_ & kHeaderBits) >> 32);
  }
  /// In endpoint packets: 12 bits.
  [[nodiscard]] constexpr std::uint16_t endpoint() const noexcept {
    return static_cast<std::uint16_t>(bits_ >> 52);
  }

  /// Sets the bits that a BTH carries.
  constexpr void stamp(Bth& bth) const noexcept {
    bth.set_p_key(static_cast<std::uint16_t>(header() >> 4));
    bth.set_reserved(static_cast<std::uint8_t>(header() & 0xF));
  }
  /// The bits that a BTH carries, as header() has them.
  [[nodiscard]] static constexpr std::uint32_t header_of(const Bth& bth) noexcept {
    return std::uint32_t{bth.p_key()} << 4 | bth.reserved();
  }
  /// Does the BTH carry these bits?
  [[nodiscard]] constexpr bool is_in(const Bth& bth) const noexcept {
    return header_of(bth) == header();
  }

  /// Equal in all bits.
  friend constexpr bool operator==(const Tag&, const Tag&) = default;

 private:
  static constexpr std::uint64_t kHeaderBits = std::uint64_t{0xFFFFF} << 32;
  static constexpr std::uint64_t kNone = std::uint64_t{kDefaultPKey} << 36;

  std::uint64_t bits_ = kNone;
};

}  // namespace mrc::inline v0_1::wire
