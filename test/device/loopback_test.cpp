// SPDX-License-Identifier: Apache-2.0
// Data between two devices of one process: every byte, in every way to send it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace loopback_test {

/// Writes of random sizes from random SGEs, with gaps between them that must stay untouched.
void random_writes(Pair& pair, std::uint64_t seed, std::size_t longest) {
  constexpr std::uint8_t kGap = 0x5A;
  Random random(seed);
  std::fill(pair.b.target.begin(), pair.b.target.end(), kGap);
  std::vector<std::uint8_t> expected = pair.b.target;
  std::size_t at = 0, waiting = 0;
  for (;;) {
    at += 1 + random.below(64);
    const std::size_t length = random.below(static_cast<std::uint32_t>(longest));
    if (at + length >= expected.size()) break;
    std::array<Sge, 4> sges;
    const std::size_t count = length == 0 ? random.below(2) : 1 + random.below(4);
    std::size_t put = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t rest = length - put;
      const std::size_t n =
          i + 1 == count ? rest : random.below(static_cast<std::uint32_t>(rest + 1));
      const std::size_t from = random.below(static_cast<std::uint32_t>(pair.a.source.size() - n));
      sges[i] = pair.a.sge(from, n);
      std::memcpy(&expected[at + put], &pair.a.source[from], n);
      put += n;
    }
    SendRequest request;
    request.sges = {sges.data(), count};
    request.remote = pair.b.target_region.remote(at);
    request.flags.inline_data = length <= 64 && random.chance(0.5);
    Errc e;
    while ((e = pair.a.qps[0].post_send(request)) == Errc::queue_full) {
      REQUIRE(pair.a.await_one().status == WcStatus::success);
      --waiting;
    }
    REQUIRE(e == Errc::ok);
    ++waiting;
    at += length;
  }
  for (const Completion& c : pair.a.await(waiting)) CHECK(c.status == WcStatus::success);
  CHECK(pair.b.target == expected);
}

QpCapacity four_sges() {
  QpCapacity capacity;
  capacity.send_sges = 4;
  capacity.inline_bytes = 64;
  return capacity;
}

/// Random writes, again with other seeds until every path has carried packets and is in use: on a
/// busy machine a path may be late, and stand aside for a while.
void write_over_all_paths(Pair& pair, std::uint64_t seed, std::size_t longest) {
  const auto unused = [&] {
    const auto paths = pair.a.device.paths(pair.a.qps[0]);
    return std::count_if(paths.begin(), paths.end(),
                         [](const PathReport& path) { return path.packets == 0 || !path.active; });
  };
  CHECK(eventually([&] {
    random_writes(pair, seed++, longest);
    return unused() == 0;
  }));
}

TEST_CASE("random sizes over four planes: every byte right, every path used") {
  const Config config = test_config("loopback:4");
  Pair pair(config, Pair::other(config), 4 << 20, four_sges());
  random_writes(pair, 1, 100'000);
  write_over_all_paths(pair, 2, 3'000);
  std::set<unsigned> planes;
  const auto paths = pair.a.device.paths(pair.a.qps[0]);
  CHECK(paths.size() == 16);
  for (const PathReport& path : paths) planes.insert(path.plane);
  CHECK(planes.size() == 4);
}

TEST_CASE("IPv6: one plane and four on one address") {
  MRC_NEED_IPV6();
  for (const char* planes : {"loopback6:1", "loopback6:4"}) {
    CAPTURE(planes);
    const Config config = test_config(planes);
    Pair pair(config, Pair::other(config), 1 << 20, four_sges());
    CHECK(contains(pair.a.device.plane_names()[0], "[::1]:21000"));
    write_over_all_paths(pair, 3, 20'000);
  }
}

TEST_CASE("packet sizes, bursts and offloads") {
  struct Variant {
    const char* name;
    const char* option;
    const char* value;
  };
  for (const Variant& v :
       {Variant{"smallest packets", "mtu", "256"}, Variant{"largest packets", "mtu", "32768"},
        Variant{"spraying each packet", "burst", "1"}, Variant{"no GSO", "gso", "off"},
        Variant{"no GRO", "gro", "off"}, Variant{"no iCRC", "icrc", "off"},
        Variant{"no window", "cc", "none"}, Variant{"a SACK per packet", "sack_threshold", "0"},
        Variant{"one path", "paths", "1"}, Variant{"one packet record", "max_outstanding", "64"}}) {
    CAPTURE(v.name);
    Config config = test_config();
    config.set(v.option, v.value);
    Pair pair(config, Pair::other(config), 300'001, four_sges());
    random_writes(pair, 4, 50'000);
  }
}

TEST_CASE("a queue pair's own MTU may differ from its device's") {
  for (const std::uint32_t mtu : {256u, 32768u}) {
    CAPTURE(mtu);
    Side a(test_config()), b(test_config("loopback:2", 2));
    QpOptions options;
    options.send_cq = &a.cq;
    options.attributes = QpAttributes{};
    options.attributes->mtu = mtu;
    a.qps.push_back(a.device.create_qp(options));
    options.send_cq = &b.cq;
    b.qps.push_back(b.device.create_qp(options));
    connect(a.qps[0], b.qps[0]);
    for (int i = 0; i < 4; ++i)
      REQUIRE(post_copy(a, a.qps[0], b, static_cast<std::size_t>(i) << 18, 1 << 18) == Errc::ok);
    for (const Completion& c : a.await(4)) CHECK(c.status == WcStatus::success);
    CHECK(a.source == b.target);
    CHECK(a.qps[0].stats().tx_packets == (1u << 20) / mtu);
  }
}

}  // namespace loopback_test
