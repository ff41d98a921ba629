// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mrc::inline v0_1 {

namespace detail {

using Word = std::uint64_t;
inline constexpr std::size_t kWordBits = 64;

[[nodiscard]] constexpr std::size_t words_for(std::size_t bits) noexcept {
  return (bits + kWordBits - 1) / kWordBits;
}

/// Calls fn(word index, mask of the wanted bits in that word) over the bits [first, last) until it
/// returns false.
template <class F>
constexpr void for_each_word(std::size_t first, std::size_t last, F&& fn) noexcept {
  while (first < last) {
    const std::size_t shift = first % kWordBits;
    const std::size_t n = std::min(kWordBits - shift, last - first);
    if (!fn(first / kWordBits, (~Word{0} >> (kWordBits - n)) << shift)) return;
    first += n;
  }
}

/// Index of the first bit in [first, last) that equals `wanted`, or `last`.
[[nodiscard]] inline std::size_t find_bit(const Word* words, std::size_t first, std::size_t last,
                                          bool wanted) noexcept {
  const Word flip = wanted ? Word{0} : ~Word{0};
  std::size_t found = last;
  for_each_word(first, last, [&](std::size_t i, Word mask) noexcept {
    const Word hits = (words[i] ^ flip) & mask;
    if (hits == 0) return true;
    found = i * kWordBits + static_cast<std::size_t>(std::countr_zero(hits));
    return false;
  });
  return found;
}

[[nodiscard]] inline std::size_t count_bits(const Word* words, std::size_t first,
                                            std::size_t last) noexcept {
  std::size_t count = 0;
  for_each_word(first, last, [&](std::size_t i, Word mask) noexcept {
    count += static_cast<std::size_t>(std::popcount(words[i] & mask));
    return true;
  });
  return count;
}

inline void write_bits(Word* words, std::size_t first, std::size_t last, bool value) noexcept {
  for_each_word(first, last, [&](std::size_t i, Word mask) noexcept {
    words[i] = value ? words[i] | mask : words[i] & ~mask;
    return true;
  });
}

}  // namespace detail

/// A fixed number of bits, in memory of its own or the caller's. Indexes must be below size(). A
/// moved-from Bitmap may only be assigned to or destroyed. One thread at a time.
class Bitmap {
 public:
  /// All bits clear. The only allocation is here.
  explicit Bitmap(std::size_t bits)
      : owned_(new detail::Word[std::max<std::size_t>(detail::words_for(bits), 1)]()),
        words_(owned_.get()),
        size_(bits) {}
  /// Uses the caller's memory, which must hold `bits` bits and outlive this. Its content is kept.
  Bitmap(std::span<std::uint64_t> storage, std::size_t bits) noexcept
      : words_(storage.data()), size_(bits) {
    assert(storage.size() >= detail::words_for(bits));
  }

  /// Number of bits.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether bit `i` is set.
  [[nodiscard]] bool test(std::size_t i) const noexcept { return (words_[i / 64] & bit(i)) != 0; }
  /// Sets bit `i`.
  void set(std::size_t i) noexcept { words_[i / 64] |= bit(i); }
  /// Clears bit `i`.
  void clear(std::size_t i) noexcept { words_[i / 64] &= ~bit(i); }
  /// Clears all bits.
  void clear_all() noexcept { std::fill_n(words_, detail::words_for(size_), detail::Word{0}); }

  /// The first set bit at or after `from`; size() when there is none.
  [[nodiscard]] std::size_t find_first_set(std::size_t from = 0) const noexcept {
    return from < size_ ? detail::find_bit(words_, from, size_, true) : size_;
  }
  /// The first clear bit at or after `from`; size() when there is none.
  [[nodiscard]] std::size_t find_first_clear(std::size_t from = 0) const noexcept {
    return from < size_ ? detail::find_bit(words_, from, size_, false) : size_;
  }
  /// Number of set bits.
  [[nodiscard]] std::size_t count() const noexcept { return detail::count_bits(words_, 0, size_); }

 private:
  static constexpr detail::Word bit(std::size_t i) noexcept { return detail::Word{1} << (i % 64); }

  std::unique_ptr<detail::Word[]> owned_;
  detail::Word* words_;
  std::size_t size_;
};

/// A window over a wrapping sequence space: bit `i` stands for every number congruent to i modulo
/// size(), so a PSN is an index as it is and nothing is shifted when the window moves. Used by the
/// receive window (mrc-1.0 §2.4). Positions may be any number; counts above size() are cut to
/// size(). One thread at a time.
class CircularBitmap {
 public:
  /// All bits clear. `bits` is rounded up to a power of two, at least 64; the size must divide the
  /// sequence space for positions to wrap with it. The only allocation is here.
  explicit CircularBitmap(std::size_t bits)
      : size_(std::bit_ceil(std::max(bits, detail::kWordBits))),
        words_(new detail::Word[detail::words_for(size_)]()) {}

  /// Number of bits.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether the bit at `pos` is set.
  [[nodiscard]] bool test(std::size_t pos) const noexcept { return (word(pos) & bit(pos)) != 0; }
  /// Sets the bit at `pos`.
  void set(std::size_t pos) noexcept { words_[index(pos) / 64] |= bit(pos); }
  /// Clears the bit at `pos`.
  void clear(std::size_t pos) noexcept { words_[index(pos) / 64] &= ~bit(pos); }
  /// Sets the bit and returns its previous value.
  bool test_and_set(std::size_t pos) noexcept {
    const bool was = test(pos);
    set(pos);
    return was;
  }
  /// Clears all bits.
  void clear_all() noexcept { std::fill_n(words_.get(), size_ / 64, detail::Word{0}); }

  /// Distance from `from` to the first set bit among the `count` bits that start there; `count` (at
  /// most size()) when there is none.
  [[nodiscard]] std::size_t find_next_set(std::size_t from, std::size_t count) const noexcept {
    return find(from, count, true);
  }
  /// The same for the first clear bit.
  [[nodiscard]] std::size_t find_next_clear(std::size_t from, std::size_t count) const noexcept {
    return find(from, count, false);
  }

  /// The 64 bits that start at `pos`, which becomes bit 0 of the result: a SACK bitmap.
  [[nodiscard]] std::uint64_t extract(std::size_t pos) const noexcept {
    const std::size_t shift = pos % 64;
    const detail::Word low = word(pos) >> shift;
    return shift == 0 ? low : low | (word(pos + 64) << (64 - shift));
  }

  /// Clears the `count` bits that start at `from`.
  void clear_range(std::size_t from, std::size_t count) noexcept { write(from, count, false); }
  /// Sets the `count` bits that start at `from`.
  void set_range(std::size_t from, std::size_t count) noexcept { write(from, count, true); }
  /// Number of set bits among the `count` bits that start at `from`.
  [[nodiscard]] std::size_t count_range(std::size_t from, std::size_t count) const noexcept {
    const Split s = split(from, count);
    return detail::count_bits(words_.get(), s.first, s.last) +
           detail::count_bits(words_.get(), 0, s.wrapped);
  }
  /// Number of set bits.
  [[nodiscard]] std::size_t count() const noexcept {
    return detail::count_bits(words_.get(), 0, size_);
  }

 private:
  // A circular range as two linear ones: [first, last) and [0, wrapped).
  struct Split {
    std::size_t first, last, wrapped;
  };

  [[nodiscard]] std::size_t index(std::size_t pos) const noexcept { return pos & (size_ - 1); }
  [[nodiscard]] const detail::Word& word(std::size_t pos) const noexcept {
    return words_[index(pos) / 64];
  }
  static constexpr detail::Word bit(std::size_t pos) noexcept {
    return detail::Word{1} << (pos % 64);
  }

  [[nodiscard]] Split split(std::size_t from, std::size_t count) const noexcept {
    const std::size_t first = index(from);
    const std::size_t n = std::min(count, size_);
    const std::size_t last = std::min(first + n, size_);
    return {first, last, n - (last - first)};
  }

  [[nodiscard]] std::size_t find(std::size_t from, std::size_t count, bool wanted) const noexcept {
    const Split s = split(from, count);
    const std::size_t found = detail::find_bit(words_.get(), s.first, s.last, wanted);
    if (found < s.last || s.wrapped == 0) return found - s.first;
    return s.last - s.first + detail::find_bit(words_.get(), 0, s.wrapped, wanted);
  }

  void write(std::size_t from, std::size_t count, bool value) noexcept {
    const Split s = split(from, count);
    detail::write_bits(words_.get(), s.first, s.last, value);
    detail::write_bits(words_.get(), 0, s.wrapped, value);
  }

  std::size_t size_;
  std::unique_ptr<detail::Word[]> words_;
};

}  // namespace mrc::inline v0_1
