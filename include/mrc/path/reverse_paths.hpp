// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::path {

/// Paths of one plane that are known to carry responses, eight at most, oldest first, used in turn.
/// With one path, all responses of the plane would share its queues, and its loss would take them
/// all. No allocation. One thread.
class ReversePaths {
 public:
  /// The most that are kept.
  static constexpr std::size_t kMost = 8;

  /// Is none known?
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// How many are known.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// Is the path among them?
  [[nodiscard]] bool contains(PathIndex path) const noexcept { return place(path) < count_; }
  /// The path that was added last, or kNoPath.
  [[nodiscard]] PathIndex newest() const noexcept { return empty() ? kNoPath : paths_[count_ - 1]; }
  /// The path that was added first, or kNoPath.
  [[nodiscard]] PathIndex oldest() const noexcept { return empty() ? kNoPath : paths_[0]; }
  /// The newest of those that worked although they were ASSUMED_BAD, or kNoPath.
  [[nodiscard]] PathIndex worked_though_bad() const noexcept {
    for (std::size_t i = count_; i-- > 0;)
      if (despite(i)) return paths_[i];
    return kNoPath;
  }

  /// The path works. It takes the place of the oldest if there are eight. `though_bad`: it was
  /// ASSUMED_BAD.
  void add(PathIndex path, bool though_bad) noexcept {
    std::size_t i = place(path);
    if (i == count_) {
      if (count_ == kMost) erase(0);
      i = count_++;
      paths_[i] = path;
    }
    set_despite(i, though_bad);
  }
  /// No longer known to work. Without effect if it is not among them.
  void remove(PathIndex path) noexcept {
    if (const std::size_t i = place(path); i < count_) erase(i);
  }
  /// Removes those for which fits(path, though_bad) does not hold; it may change `though_bad`.
  template <class Fits>
  void keep(Fits&& fits) noexcept {
    for (std::size_t i = count_; i-- > 0;)
      if (!kept(i, fits)) erase(i);
  }
  /// The next one in turn that fits, or kNoPath. Those that do not are removed.
  template <class Fits>
  [[nodiscard]] PathIndex next(Fits&& fits) noexcept {
    while (!empty()) {
      const std::size_t i = turn_ < count_ ? turn_ : 0;
      turn_ = static_cast<std::uint8_t>(i);
      if (kept(i, fits)) return paths_[turn_++];
      erase(i);
    }
    return kNoPath;
  }

 private:
  [[nodiscard]] std::size_t place(PathIndex path) const noexcept {
    return static_cast<std::size_t>(std::find(paths_.begin(), paths_.begin() + count_, path) -
                                    paths_.begin());
  }
  [[nodiscard]] bool despite(std::size_t i) const noexcept { return (despite_ >> i & 1) != 0; }
  template <class Fits>
  [[nodiscard]] bool kept(std::size_t i, Fits& fits) noexcept {
    bool though_bad = despite(i);
    if (!fits(paths_[i], though_bad)) return false;
    set_despite(i, though_bad);
    return true;
  }
  void set_despite(std::size_t i, bool on) noexcept {
    const unsigned bit = 1u << i;
    despite_ = static_cast<std::uint8_t>(on ? despite_ | bit : despite_ & ~bit);
  }
  void erase(std::size_t i) noexcept {
    std::copy(paths_.begin() + i + 1, paths_.begin() + count_, paths_.begin() + i);
    --count_;
    const unsigned below = (1u << i) - 1;
    despite_ = static_cast<std::uint8_t>((despite_ & below) | (despite_ >> 1 & ~below));
    if (turn_ > i) --turn_;
  }

  std::array<PathIndex, kMost> paths_{};
  std::uint8_t count_ = 0;
  std::uint8_t turn_ = 0;     ///< the place of the next one
  std::uint8_t despite_ = 0;  ///< by place: it was ASSUMED_BAD
};

}  // namespace mrc::inline v0_1::path
