// SPDX-License-Identifier: Apache-2.0
// Option icrc=auto: devices of one host agree to leave the payload out of the iCRC, and whatever
// speaks against it keeps it in. Option mtu=auto: larger packets over loopback.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "device/gid_rig.hpp"
#include "mrc/net/interface.hpp"
#include "support/memory_planes.hpp"

using namespace mrc;
using namespace mrc::test;

namespace same_host_test {

/// What the only peer of a device is.
PeerReport peer_of(const Device& device) {
  const auto peers = device.stats().connected;
  REQUIRE(peers.size() == 1);
  return peers[0];
}
bool of_heads(const Device& device) {
  return peer_of(device).head_check;
}

/// Connects two devices, `change` being made to what b tells a.
template <class Change>
void connect_changed(Side& a, Side& b, Change change) {
  QueuePair &to = a.add_qp(), &from = b.add_qp();
  ConnectionInfo first = to.local_info(), second = from.local_info();
  change(first, second);
  to.connect(second);
  from.connect(first);
}

/// Are both sides' packets checked as a whole, with these settings, and do they arrive?
void check_whole(const Config& a, const Config& b) {
  Pair pair(a, b);
  CHECK_FALSE(of_heads(pair.a.device));
  CHECK_FALSE(of_heads(pair.b.device));
  pair.copy_all();
}

Config with(const char* name, const char* value) {
  Config config = test_config();
  config.set(name, value);
  return config;
}

TEST_CASE("same host: the payload is left out of the iCRC, over IPv4 and IPv6, on any planes") {
  std::vector<std::string> kinds{"loopback:1", "loopback:3"};
  if (has_ipv6()) kinds.emplace_back("loopback6:2");
  for (const std::string& planes : kinds) {
    CAPTURE(planes);
    Pair pair(test_config(planes));
    CHECK(of_heads(pair.a.device));
    CHECK(of_heads(pair.b.device));
    pair.copy_all();
    CHECK(pair.a.device.stats().engine.drops.bad_icrc == 0);
    CHECK(pair.b.device.stats().engine.drops.bad_icrc == 0);
  }
}

TEST_CASE("same host: an address of another interface, packets to which stay on loopback") {
  const port::IpAddress own = port::default_route_address();
  if (port::is_loopback(own)) {
    std::puts("[test skipped] this machine has no address but the loopback's");
    return;
  }
  Pair pair(test_config(port::format_ip(own)));
  CHECK(of_heads(pair.a.device));
  CHECK(of_heads(pair.b.device));
  pair.copy_all();
}

TEST_CASE("same host: by GID") {
  GidPair pair;
  CHECK(eventually([&] { return pair.a.device.stats().connected.size() == 1; }));
  CHECK(eventually([&] { return pair.b.device.stats().connected.size() == 1; }));
  CHECK(of_heads(pair.a.device));
  CHECK(of_heads(pair.b.device));
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100'000) == Errc::ok);
  CHECK(pair.a.await_one().status == WcStatus::success);
}

TEST_CASE("same host: the log says so, once for each peer") {
  LogLines lines;
  Config config = test_config();
  lines.capture(config);
  const Pair pair(config, Pair::other(test_config()));
  CHECK(lines.count("on this host: the iCRC leaves the payload out") == 1);
}

TEST_CASE("same host: icrc=on at either side, strict, or faults keep the payload in") {
  const Config plain = Pair::other(test_config());
  for (const auto& other :
       {with("icrc", "on"), with("strict", "on"), with("faults", "loss=0.01")}) {
    CAPTURE(other.get("icrc") + other.get("strict") + other.get("faults"));
    if (!other.strict) {
      check_whole(other, plain);
      check_whole(plain, other);
    }
    check_whole(other, Pair::other(other));
  }
}

TEST_CASE("same host: what the peer has told decides, too") {
  using Info = ConnectionInfo;
  const auto whole = [](auto change, const Config& config = test_config()) {
    Side a(config), b(Pair::other(config));
    connect_changed(a, b, change);
    CHECK_FALSE(of_heads(a.device));
    CHECK_FALSE(of_heads(b.device));
    REQUIRE(post_copy(a, a.qps[0], b, 0, 100'000) == Errc::ok);
    CHECK(a.await_one().status == WcStatus::success);
  };
  SUBCASE("another network namespace") {
    const port::IpAddress own = port::default_route_address();
    if (port::is_loopback(own)) {  // such a peer would be refused
      std::puts("[test skipped] this machine has no address but the loopback's");
      return;
    }
    whole([](Info& a, Info& b) { a.network_namespace = ++b.network_namespace; },
          test_config(port::format_ip(own)));
  }
  SUBCASE("none: an older release, or icrc=on") {
    whole([](Info& a, Info& b) { a.network_namespace = b.network_namespace = 0; });
  }
  SUBCASE("no tag") {
    whole([](Info& a, Info& b) { a.tag = b.tag = 0; });
  }
  SUBCASE("another implementation") {
    whole([](Info& a, Info& b) {
      a.foreign = b.foreign = true;
      a.tag = b.tag = 0;
      a.network_namespace = b.network_namespace;
    });
  }
}

TEST_CASE("same host: a peer to which packets do not stay on loopback is another host") {
  const port::IpAddress own = port::default_route_address();
  if (port::is_loopback(own)) {
    std::puts("[test skipped] this machine has no address but the loopback's");
    return;
  }
  Side a(test_config(port::format_ip(own)));
  ConnectionInfo info = a.add_qp().local_info();
  CHECK(info.network_namespace != 0);
  ++info.device_guid;
  info.planes[0].ip[15] ^= 0x40;  // a neighbour, if what it says were true
  a.add_qp().connect(info);
  CHECK_FALSE(of_heads(a.device));
}

TEST_CASE("same host: planes of another kind take no part") {
  const auto network = std::make_shared<MemoryNetwork>();
  const auto side = [&](std::uint8_t host) {
    return Device(test_config("loopback:1", host), std::make_unique<MemoryKind>(network, host));
  };
  Device a = side(1), b = side(2);
  QpOptions options;
  CompletionQueue cq_a = a.create_cq(16), cq_b = b.create_cq(16);
  options.send_cq = &cq_a;
  QueuePair to = a.create_qp(options);
  options.send_cq = &cq_b;
  QueuePair from = b.create_qp(options);
  CHECK(to.local_info().network_namespace == 0);
  ConnectionInfo info = from.local_info();
  info.network_namespace = 7;
  to.connect(info);
  CHECK_FALSE(of_heads(a));
}

TEST_CASE("same host: faults that damage packets need icrc=on, since they could go unnoticed") {
  Side side(test_config());
  const Error error = thrown_by([&] { side.device.set_faults("corrupt=0.1"); });
  CHECK(error.code() == Errc::unsupported);
  CHECK(contains(error.what(), "icrc=on"));
  side.device.set_faults("loss=0.1");
  Side checked(with("icrc", "on"));
  checked.device.set_faults("corrupt=0.1");
  Side faulty(with("faults", "loss=0.1"));
  faulty.device.set_faults("corrupt=0.1");
}

TEST_CASE("mtu=auto: what the interfaces carry, 4,096 with strict and with others") {
  const auto of = [](const Config& config) {
    Side side(config);
    return side.add_qp().query().attributes.mtu;
  };
  CHECK(of(test_config()) == 32'640);
  CHECK(of(with("mtu", "auto")) == 32'640);
  CHECK(of(with("mtu", "2048")) == 2048);
  CHECK(of(with("strict", "on")) == 4096);
  const port::IpAddress own = port::default_route_address();
  if (!port::is_loopback(own)) {
    Config config = test_config();
    config.planes = {"127.0.0.1", port::format_ip(own)};
    CHECK(of(config) <= 4096);
  }
  Side a(test_config()), b(Pair::other(test_config()));
  connect_changed(a, b, [](ConnectionInfo& x, ConnectionInfo& y) {
    for (ConnectionInfo* info : {&x, &y})
      *info = foreign_peer(info->qpn, info->start_psn, info->planes);
  });
  CHECK(a.qps[0].query().mtu == 4096);
  CHECK(b.qps[0].query().mtu == 4096);
  REQUIRE(post_copy(a, a.qps[0], b, 0, 100'000) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
}

}  // namespace same_host_test
