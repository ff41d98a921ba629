// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/pattern.hpp"

#include <cstring>

namespace mrc::nccl_perf {
namespace {

constexpr std::size_t kElement = 4;

/// A mix of element number, round and rank.
constexpr std::uint32_t mix(std::size_t element, std::uint32_t seed) noexcept {
  std::uint32_t x = static_cast<std::uint32_t>(element) * 0x9E3779B1u ^ seed * 0x85EBCA77u;
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  return x ^ x >> 13;
}

/// Floats that are integers, whose sum over any few ranks is exact: a part that is the same at all
/// ranks, and one by which sums over different ranks differ.
constexpr std::uint32_t common_part(std::size_t element, std::uint32_t round) noexcept {
  return mix(element, round) & 0xFFFF;
}
constexpr std::uint32_t own_part(int rank) noexcept {
  return static_cast<std::uint32_t>(rank * rank + 1);
}

template <class Value>
void fill(std::byte* to, std::size_t bytes, Value value) {
  for (std::size_t i = 0; i < bytes / kElement; ++i) {
    const auto v = value(i);
    std::memcpy(to + i * kElement, &v, kElement);
  }
}

template <class Value>
std::size_t differences(const std::byte* at, std::size_t bytes, Value value) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes / kElement; ++i) {
    const auto v = value(i);
    wrong += std::memcmp(at + i * kElement, &v, kElement) != 0 ? 1 : 0;
  }
  return wrong;
}

/// Of an operation that only moves bytes: all 32 bits of an element count.
std::uint32_t seed_of(int rank, std::uint32_t round) noexcept {
  return round * 64 + static_cast<std::uint32_t>(rank);
}

}  // namespace

void fill_input(Collective c, int rank, std::uint32_t round, std::byte* input, std::size_t bytes) {
  if (reduces(c))
    fill(input, bytes,
         [&](std::size_t i) { return static_cast<float>(common_part(i, round) + own_part(rank)); });
  else
    fill(input, bytes, [&](std::size_t i) { return mix(i, seed_of(rank, round)); });
}

void spoil(std::byte* output, std::size_t bytes) {
  std::memset(output, 0xA5, bytes);
}

std::size_t wrong_elements(Collective c, const Shape& shape, int rank, std::uint32_t round,
                           const std::byte* output, std::size_t size) {
  const auto n = static_cast<std::size_t>(shape.ranks), r = static_cast<std::size_t>(rank);
  if (reduces(c)) {
    std::uint32_t own = 0;
    for (int k = 0; k < shape.ranks; ++k) own += own_part(k);
    const std::size_t first =
        c == Collective::reduce_scatter ? r * (size / n / kElement) : std::size_t{0};
    return differences(output, volume(c, shape.ranks, size).output, [&](std::size_t i) {
      return static_cast<float>(shape.ranks) * static_cast<float>(common_part(first + i, round)) +
             static_cast<float>(own);
    });
  }
  if (c == Collective::send_receive) {
    const std::uint32_t seed = seed_of((rank + shape.ranks - 1) % shape.ranks, round);
    return differences(output, size, [&](std::size_t i) { return mix(i, seed); });
  }
  // A block from each rank: all that it has, or what it has for this one.
  const std::size_t block = size / n, elements = block / kElement;
  const std::size_t first = c == Collective::all_to_all ? r * elements : 0;
  std::size_t wrong = 0;
  for (std::size_t from = 0; from < n; ++from)
    wrong += differences(output + from * block, block, [&](std::size_t i) {
      return mix(first + i, seed_of(static_cast<int>(from), round));
    });
  return wrong;
}

}  // namespace mrc::nccl_perf
