// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <numeric>
#include <vector>

#include "mrc/core/random.hpp"
#include "nccl_plugin/data/copy_ring.hpp"

using mrc_nccl::CopyRing;

namespace copy_ring_test {

mrc::Config quiet() {
  mrc::Config config;
  config.planes = {"127.0.0.1"};
  config.paths = 1;
  return config;
}

struct Copy {
  const std::uint8_t* at;
  std::vector<std::uint8_t> bytes;
  std::uint64_t end;

  [[nodiscard]] bool intact() const { return std::memcmp(at, bytes.data(), bytes.size()) == 0; }
};

Copy copy(CopyRing& ring, std::size_t size, std::uint8_t first) {
  Copy c;
  c.bytes.resize(size);
  std::iota(c.bytes.begin(), c.bytes.end(), first);
  const mrc::Sge sge = ring.copy(c.bytes.data(), size);
  c.at = static_cast<const std::uint8_t*>(sge.address);
  CHECK(sge.length == size);
  c.end = ring.end();
  return c;
}

TEST_CASE("copy ring: copies stay as they are until they are released, in any sizes") {
  mrc::Device device(quiet());
  CopyRing ring(device);
  mrc::Random random(1);
  std::deque<Copy> copies;
  unsigned full = 0;
  for (unsigned i = 0; i < 5000; ++i) {
    const std::size_t size = 1 + random.below(random.below(4) == 0 ? 200'000 : 5000);
    if (ring.has_room(size)) {
      copies.push_back(copy(ring, size, static_cast<std::uint8_t>(i)));
      continue;
    }
    ++full;
    for (const Copy& c : copies) REQUIRE(c.intact());
    for (auto n = 1 + random.below(static_cast<std::uint32_t>(copies.size())); n > 0; --n) {
      ring.release(copies.front().end);
      copies.pop_front();
    }
  }
  CHECK(full > 100);
}

TEST_CASE("copy ring: all of it can be used, and what is taken back is free again") {
  mrc::Device device(quiet());
  CopyRing ring(device);
  const Copy half = copy(ring, CopyRing::kBytes / 2, 1);
  const std::uint64_t before = ring.end();
  (void)copy(ring, CopyRing::kBytes / 2, 2);
  CHECK_FALSE(ring.has_room(1));
  ring.take_back(before);
  CHECK(ring.has_room(CopyRing::kBytes / 2));
  CHECK_FALSE(ring.has_room(CopyRing::kBytes / 2 + 1));
  CHECK(half.intact());
  ring.release(half.end);
  CHECK(ring.has_room(CopyRing::kBytes / 2));
  CHECK_FALSE(ring.has_room(CopyRing::kBytes));  // it is free, but not side by side
}

}  // namespace copy_ring_test
