// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "mrc_sim/soak/options.hpp"

namespace mrc::soak {

/// Contents determined by a key and an offset, so that every byte can be checked anywhere.
class SoakPattern {
 public:
  explicit SoakPattern(std::uint64_t key) noexcept : key_(key) {}

  /// The eight bytes from offset 8 x word on.
  [[nodiscard]] std::uint64_t word(std::uint64_t word) const noexcept {
    std::uint64_t h = (word + 1) * 0x9E3779B97F4A7C15u ^ key_;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
  }
  [[nodiscard]] std::uint8_t byte(std::uint64_t place) const noexcept {
    return static_cast<std::uint8_t>(word(place / 8) >> place % 8 * 8);
  }
  /// Writes the bytes of [place, place + length).
  void fill(std::uint8_t* to, std::uint64_t place, std::size_t length) const noexcept {
    for (std::size_t i = 0; i < length; ++i) to[i] = byte(place + i);
  }

 private:
  std::uint64_t key_;
};

/// Memory of a host that peers write to. Messages have places with guard bytes between them. A
/// message verified in its place is then inverted, so that a second write is detected.
class SoakMemory {
 public:
  SoakMemory(std::string owner, std::uint64_t key) : owner_(std::move(owner)), pattern_(key) {}

  /// Reserves a gap, then a place for a message; during layout only.
  [[nodiscard]] std::uint64_t place(std::uint32_t length, std::uint32_t gap) {
    const std::uint64_t at = size_ + gap;
    size_ = at + length;
    return at;
  }
  /// Allocates the memory; ends the layout.
  void make(std::uint32_t gap) { bytes_.assign(size_ + gap, kGuard); }

  [[nodiscard]] const SoakPattern& pattern() const noexcept { return pattern_; }
  [[nodiscard]] std::uint8_t* data() noexcept { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }

  /// The message has arrived. Throws SoakFailure if a byte is wrong.
  void verify(std::uint64_t at, std::uint32_t length, const std::string& message) {
    for (std::uint32_t i = 0; i < length; ++i) {
      const std::uint8_t expected = pattern_.byte(at + i);
      soak_require(bytes_[at + i] == expected, [&] {
        return message + " completed, but byte " + std::to_string(i) + " of " +
               std::to_string(length) + where(at + i) +
               (bytes_[at + i] == kGuard ? "was never written" : "is wrong");
      });
      bytes_[at + i] = static_cast<std::uint8_t>(~expected);
    }
  }

  /// At the end: checks that `verified` messages are as verify() left them; others may have arrived
  /// in part.
  void check_message(std::uint64_t at, std::uint32_t length, bool verified,
                     const std::string& message) const {
    for (std::uint32_t i = 0; i < length; ++i) {
      const std::uint8_t now = bytes_[at + i], expected = pattern_.byte(at + i);
      const bool ok =
          verified ? now == static_cast<std::uint8_t>(~expected) : now == kGuard || now == expected;
      soak_require(ok, [&] {
        return message + ": byte " + std::to_string(i) + " of " + std::to_string(length) +
               where(at + i) +
               (verified ? "was written again after the completion" : "is neither old nor new");
      });
    }
  }
  /// At the end: checks that [at, end) was never written.
  void check_guard(std::uint64_t at, std::uint64_t end) const {
    for (; at < end; ++at)
      soak_require(bytes_[at] == kGuard,
                   [&] { return "a write outside of all messages: byte" + where(at) + "changed"; });
  }

 private:
  static constexpr std::uint8_t kGuard = 0xEE;

  [[nodiscard]] std::string where(std::uint64_t at) const {
    return " (" + owner_ + " offset " + std::to_string(at) + ") ";
  }

  std::string owner_;
  SoakPattern pattern_;
  std::vector<std::uint8_t> bytes_;
  std::uint64_t size_ = 0;
};

}  // namespace mrc::soak
