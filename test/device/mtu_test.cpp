// SPDX-License-Identifier: Apache-2.0
// What devices agree on: packets of any multiple of 128 bytes, powers of two with other
// implementations of MRC.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "device_rig.hpp"
#include "mrc/wire/headers.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::test;

namespace mtu_test {

Config config_of(std::uint32_t mtu, std::uint64_t seed = 1) {
  Config config = test_config("loopback:2", seed);
  config.mtu = mtu;
  return config;
}

/// What connection data that an older release, or another implementation, gives looks like.
ConnectionInfo without_multiples(ConnectionInfo info, std::uint32_t mtu) {
  info.mtu_multiples = false;
  info.mtu = mtu;
  return info;
}

TEST_CASE("MTU: devices agree on the smaller multiple of 128") {
  for (const std::uint32_t mtu : {384u, 1408u, 3968u}) {
    for (const bool sender_small : {false, true}) {
      CAPTURE(mtu);
      CAPTURE(sender_small);
      const Config small = config_of(mtu, 2), large = config_of(4096);
      Pair pair(sender_small ? small : large, sender_small ? large : small);
      CHECK(pair.a.qps[0].query().mtu == mtu);
      CHECK(pair.b.qps[0].query().mtu == mtu);
      pair.copy_all();
      constexpr std::uint64_t kMessage = 64 << 10;
      const std::uint64_t packets = (kMessage + mtu - 1) / mtu;
      CHECK(pair.a.qps[0].stats().tx_packets == pair.a.source.size() / kMessage * packets);
    }
  }
}

TEST_CASE("MTU: with peers that take powers of two only, the one below counts") {
  Side a(config_of(1408));
  a.qps.reserve(8);
  struct Case {
    std::uint32_t theirs, agreed;
  };
  for (const auto& [theirs, agreed] : {Case{4096, 1024}, Case{1024, 1024}, Case{512, 512}}) {
    QueuePair& qp = a.add_qp();
    const ConnectionInfo peer = without_multiples(a.add_qp().local_info(), theirs);
    qp.connect(peer);
    CHECK(qp.query().mtu == agreed);
    CHECK(qp.local_info().mtu == agreed);
  }
  QueuePair& qp = a.add_qp();
  qp.modify({.state = QpState::init});
  QpChange change{.state = QpState::rtr};
  change.connection = without_multiples(a.add_qp().local_info(), 4096);
  change.mtu = 1408;
  CHECK_THROWS_AS(qp.modify(change), Error);
  change.mtu = 512;
  qp.modify(change);
  CHECK(qp.query().mtu == 512);
}

TEST_CASE("MTU: what an older release reads is a power of two") {
  Side a(config_of(1408)), b(config_of(4096, 2));
  const auto blob = encode(a.add_qp().local_info());
  CHECK(decode_connection_info(blob).mtu == 1408);
  // An older release reads the item of the queue pair (type 2, 16 bytes), and skips the exact one.
  const std::vector<std::uint8_t> head{0x80, 2, 0, 16};
  const auto item = std::search(blob.begin(), blob.end(), head.begin(), head.end());
  REQUIRE(item < blob.end() - 16);
  CHECK((item[12] == 0 && item[13] == 0 && item[14] == 4 && item[15] == 0));
}

TEST_CASE("MTU: an option that says that peers are of other implementations") {
  Config config = config_of(1408);
  config.peer = PeerKind::mrc;
  Side a(config), b(config_of(1408, 2));
  CHECK_FALSE(a.add_qp().local_info().mtu_multiples);
  CHECK(a.qps[0].local_info().mtu == 1024);
  connect(a.qps[0], b.add_qp());
  CHECK(a.qps[0].query().mtu == 1024);
  CHECK(b.qps[0].query().mtu == 1024);
  REQUIRE(post_copy(a, a.qps[0], b, 0, 100'000) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
  CHECK(std::equal(a.source.begin(), a.source.begin() + 100'000, b.target.begin()));
}

// The kernel sends to an own address through lo, whose MTU counts then.
TEST_CASE("MTU: Ethernet's 1,500 bytes carry 1,408, over IPv4 and IPv6") {
  in_new_network([] {
    shell(
        "ip link set lo mtu 1500 up; ip link add p0 mtu 1500 type veth peer name q0; ip link set "
        "q0 up; "
        "ip link set p0 up; ip addr add 10.9.0.1/24 dev p0; ip addr add fd09::1/64 dev p0 nodad; " +
        await_own_route("fd09::1"));
    for (const char* address : {"10.9.0.1", "fd09::1"}) {
      CAPTURE(address);
      Config config = test_config(address), other = test_config(address, 2);
      Pair pair(config, other, 300'000);
      CHECK(pair.a.qps[0].query().mtu == 1408);
      pair.copy_all();
    }
  });
}

}  // namespace mtu_test
