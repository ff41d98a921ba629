// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/random.hpp"

using namespace mrc;
using namespace std::chrono_literals;

TEST_CASE("secret random: the key decides, and each number differs") {
  SecretRandom a({1, 2}), b({1, 2}), c({1, 3});
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t n = a.next();
    CHECK(n == b.next());
    CHECK(n != c.next());
    CHECK(seen.insert(n).second);
  }
}

TEST_CASE("secret random: it is SipHash-2-4 of the number of the call") {
  SecretRandom r({0x0706050403020100, 0x0F0E0D0C0B0A0908});
  const std::array<std::uint8_t, 8> first{}, second{1};
  CHECK(r.next() == siphash({0x0706050403020100, 0x0F0E0D0C0B0A0908}, first));
  CHECK(r.next() == siphash({0x0706050403020100, 0x0F0E0D0C0B0A0908}, second));
}

TEST_CASE("secret random: each bit is set half of the time") {
  SecretRandom r({7, 7});
  std::array<unsigned, 64> set{};
  constexpr unsigned kNumbers = 20'000;
  for (unsigned i = 0; i < kNumbers; ++i)
    for (std::uint64_t n = r.next(); n != 0; n &= n - 1) ++set[std::countr_zero(n)];
  for (const unsigned n : set) CHECK(std::abs(static_cast<int>(n) - 10'000) < 400);  // 5.6 sigma
}

TEST_CASE("secret random: bits, below and shuffle stay within their bounds") {
  SecretRandom r({7, 8});
  for (int i = 0; i < 1000; ++i) {
    CHECK(r.bits(3) < 8);
    CHECK(r.below(7) < 7);
  }
  CHECK(std::popcount(r.bits(32) | r.bits(32) | r.bits(32) | r.bits(32) | r.bits(32)) > 20);
  std::vector<std::uint32_t> items(100), sorted;
  std::iota(items.begin(), items.end(), 0u);
  sorted = items;
  r.shuffle(std::span(items));
  CHECK(items != sorted);
  std::sort(items.begin(), items.end());
  CHECK(items == sorted);
}

TEST_CASE("token bucket: a burst, then the rate, and a burst again after a rest") {
  TokenBucket bucket(1000, 5);
  Time now{1s};
  const auto taken = [&](int tries) {
    int n = 0;
    for (int i = 0; i < tries; ++i) n += bucket.take(now);
    return n;
  };
  CHECK(taken(100) == 5);
  CHECK(taken(100) == 0);
  int n = 0;
  for (int i = 0; i < 100; ++i) {
    now += 500us;
    n += taken(3);
  }
  CHECK(n == 50);
  now += 1h;
  CHECK(taken(100) == 5);
}

TEST_CASE("token bucket: less than one per second") {
  TokenBucket bucket(10s, 4);
  Time now{1s};
  int n = 0;
  for (int i = 0; i < 100; ++i) {
    n += bucket.take(now);
    now += 1s;
  }
  CHECK(n == 4 + 9);
}
