// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/wire/icrc.hpp"
#include "vectors.hpp"

namespace mrc::wire::crc32_test {
namespace {

/// The definition, bit by bit.
std::uint32_t by_bits(std::uint32_t crc, Bytes bytes) {
  crc = ~crc;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

/// Runs `check` with each kernel that this processor has, and names the others.
template <class Check>
void for_each_kernel(const Check& check) {
  for (const Crc32Kernel& kernel : crc32_kernels()) {
    if (!kernel.supported) {
      MESSAGE("not run, since this processor does not have it: " << std::string(kernel.name));
      continue;
    }
    CAPTURE(std::string(kernel.name));
    check(kernel.function);
  }
}

TEST_CASE("CRC-32: kernels have names of their own, and the portable one is always there") {
  const std::span<const Crc32Kernel> kernels = crc32_kernels();
  REQUIRE(!kernels.empty());
  CHECK((kernels.back().function == &crc32_portable));
  CHECK(kernels.back().supported);
  for (const Crc32Kernel& kernel : kernels)
    for (const Crc32Kernel& other : kernels)
      CHECK((&kernel == &other) == (std::string_view(kernel.name) == other.name));
}

TEST_CASE("CRC-32: check value") {
  static constexpr std::array<std::uint8_t, 9> kDigits{'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  CHECK(crc32(0, kDigits) == 0xCBF43926);
  CHECK(crc32(0, {}) == 0);
  for_each_kernel([](auto crc) {
    CHECK(crc(0, kDigits) == 0xCBF43926);
    CHECK(crc(0, {}) == 0);
    CHECK(crc(0x1234, {}) == 0x1234);
  });
}

TEST_CASE("CRC-32: every kernel agrees with the definition at all lengths, nothing read beyond") {
  Random random(1);
  std::vector<std::uint32_t> expected;
  const test::Buffer data = test::random_bytes(random, 1024);
  const auto start = static_cast<std::uint32_t>(random.next());
  for (std::size_t n = 0; n <= data.size(); ++n)
    expected.push_back(by_bits(start, Bytes{data}.first(n)));
  for_each_kernel([&](auto crc) {
    for (std::size_t n = 0; n <= data.size(); ++n) {
      // An allocation of this length: the address sanitizer sees each byte read before and behind.
      const auto exact = std::make_unique<std::uint8_t[]>(n);
      if (n > 0) std::memcpy(exact.get(), data.data(), n);
      REQUIRE_MESSAGE(crc(start, {exact.get(), n}) == expected[n], "length " << n);
    }
  });
}

TEST_CASE("CRC-32: every kernel agrees with the definition at all alignments and seeds") {
  Random random(2);
  const test::Buffer data = test::random_bytes(random, 1024 + 64);
  for_each_kernel([&](auto crc) {
    for (std::size_t at = 0; at < 64; ++at)
      for (int round = 0; round < 20; ++round) {
        const Bytes bytes = Bytes{data}.subspan(at, random.below(1025));
        const auto start = round == 0 ? ~0u : static_cast<std::uint32_t>(random.next());
        REQUIRE_MESSAGE(crc(start, bytes) == by_bits(start, bytes),
                        "length " << bytes.size() << " at " << at << ", seed " << start);
      }
  });
}

TEST_CASE("CRC-32: a kernel continues where itself or another one stopped") {
  Random random(3);
  const test::Buffer data = test::random_bytes(random, 600);
  const std::uint32_t expected = by_bits(7, data);
  for_each_kernel([&](auto crc) {
    for (std::size_t cut = 0; cut <= data.size(); ++cut) {
      const Bytes first = Bytes{data}.first(cut), second = Bytes{data}.subspan(cut);
      REQUIRE_MESSAGE(crc(crc(7, first), second) == expected, "cut at " << cut);
      REQUIRE_MESSAGE(crc(crc32_portable(7, first), second) == expected, "cut at " << cut);
      REQUIRE_MESSAGE(crc32_portable(crc(7, first), second) == expected, "cut at " << cut);
      REQUIRE_MESSAGE(crc32(crc(7, first), second) == expected, "cut at " << cut);
    }
  });
}

TEST_CASE("CRC-32: each bit of a long input counts") {
  Random random(4);
  for (const std::size_t n : {2048u, 4096u, 8999u, 65535u}) {
    test::Buffer data = test::random_bytes(random, n);
    for (int round = 0; round < 10; ++round) {
      const std::uint32_t expected = by_bits(0, data);
      for_each_kernel([&](auto crc) { REQUIRE(crc(0, data) == expected); });
      data[random.below(static_cast<std::uint32_t>(n))] ^=
          static_cast<std::uint8_t>(1u << random.below(8));
    }
  }
}

}  // namespace
}  // namespace mrc::wire::crc32_test
