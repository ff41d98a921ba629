// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// The bytes that --check sends: every 8-byte word depends on the run, the queue pair, the message
/// number and its offset in the message, so that a missing, stale or swapped byte, or one from
/// another message, differs. One add, shift and exclusive-or per word, so as not to limit the
/// bandwidth.
namespace mrc::perf {

/// The content of one message.
class Pattern {
 public:
  Pattern(std::uint64_t run_seed, std::uint32_t stream, std::uint64_t message) noexcept
      : base_(mix(run_seed ^ mix((std::uint64_t{stream} << 48) + message))) {}

  /// Writes bytes [offset, offset + length) of the message to `to`. `offset` must be a multiple
  /// of 8.
  void fill(std::uint8_t* to, std::size_t offset, std::size_t length) const noexcept {
    std::uint64_t x = base_ + (offset / 8) * kStep;
    const std::size_t words = length / 8;
    for (std::size_t i = 0; i < words; ++i, x += kStep) {
      const std::uint64_t word = x ^ (x >> 32);
      std::memcpy(to + 8 * i, &word, 8);
    }
    const std::uint64_t last = x ^ (x >> 32);
    std::memcpy(to + 8 * words, &last, length % 8);
  }

  /// Counts the bytes of [offset, offset + length) that differ from fill(), and sets the offset in
  /// the message of the first of them, if there is one.
  [[nodiscard]] std::uint64_t verify(const std::uint8_t* at, std::size_t offset, std::size_t length,
                                     std::uint64_t& first_bad) const noexcept {
    std::uint64_t bad = 0;
    for (std::size_t done = 0; done < length; done += kBlock) {
      const std::size_t n = std::min(kBlock, length - done);
      if (!same(at + done, offset + done, n)) {
        bad += count_bad(at + done, offset + done, n, bad == 0 ? &first_bad : nullptr);
      }
    }
    return bad;
  }

 private:
  static constexpr std::uint64_t kStep =
      0x9E3779B97F4A7C15u;  // odd: words repeat only after a full period
  static constexpr std::size_t kBlock = 4096;

  static std::uint64_t mix(std::uint64_t z) noexcept {
    z = (z ^ (z >> 33)) * 0xFF51AFD7ED558CCDu;
    z = (z ^ (z >> 33)) * 0xC4CEB9FE1A85EC53u;
    return z ^ (z >> 33);
  }

  [[nodiscard]] bool same(const std::uint8_t* at, std::size_t offset,
                          std::size_t length) const noexcept {
    std::uint64_t x = base_ + (offset / 8) * kStep;
    std::uint64_t difference = 0;
    const std::size_t words = length / 8;
    for (std::size_t i = 0; i < words; ++i, x += kStep) {
      std::uint64_t word;
      std::memcpy(&word, at + 8 * i, 8);
      difference |= word ^ x ^ (x >> 32);
    }
    const std::uint64_t last = x ^ (x >> 32);
    return difference == 0 && std::memcmp(at + 8 * words, &last, length % 8) == 0;
  }

  std::uint64_t count_bad(const std::uint8_t* at, std::size_t offset, std::size_t length,
                          std::uint64_t* first) const noexcept {
    std::uint8_t expected[kBlock];
    fill(expected, offset, length);
    std::uint64_t bad = 0;
    for (std::size_t i = 0; i < length; ++i) {
      if (at[i] == expected[i]) continue;
      if (bad++ == 0 && first != nullptr) *first = offset + i;
    }
    return bad;
  }

  std::uint64_t base_;
};

}  // namespace mrc::perf
