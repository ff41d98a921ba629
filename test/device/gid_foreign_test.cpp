// SPDX-License-Identifier: Apache-2.0
// Queue pairs that are connected by GID to another implementation of MRC, and to UDP ports other
// than the own one.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gid_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace gid_foreign_test {

/// A device that speaks nothing but MRC, and a queue pair of it that knows `to` already and needs
/// no answer to begin.
struct PlainSide : Side {
  explicit PlainSide(Config config) : Side(strict(std::move(config))) {}
  static Config strict(Config config) {
    config.strict = true;
    return config;
  }
  void join(const QueuePair& to) {
    const ConnectionInfo info = to.local_info();
    qps[0].connect(foreign_peer(info.qpn, kPsnA, info.planes));
  }
};

TEST_CASE("by GID: what another implementation sends before it could be asked is not lost") {
  Config config = test_config("loopback:1");
  PlainSide b(Pair::other(config));
  const ConnectionInfo info = b.add_qp().local_info();
  config.peer_ports = "127.0.0.0/8=" + std::to_string(info.planes[0].udp_port);
  Side a(config);
  b.join(a.add_qp());
  connect_by_gid(a.qps[0], kPsnA, b.device.gid(), info.qpn, info.start_psn);
  copy_one(b, b.qps[0], a);
  CHECK_FALSE(a.qps[0].query().resolving);
  CHECK(a.device.stats().engine.drops.wrong_state == 0);
  copy_one(a, a.qps[0], b);
}

TEST_CASE("by GID: plain packets do not replace an OpenMRC peer that has answered") {
  Config config = test_config("loopback:1");
  Side a(config), b(Pair::other(config));
  config.seed = 7;
  PlainSide stranger(config);  // at the address of b
  const Psn psn = stranger.add_qp().local_info().start_psn;
  connect_by_gid(a.add_qp(), kPsnA, b.device.gid(), b.add_qp().qpn(), psn);
  std::this_thread::sleep_for(1s);  // b answers that it is not ready
  stranger.join(a.qps[0]);
  REQUIRE(post_copy(stranger, stranger.qps[0], a, 0, 4096) == Errc::ok);
  CHECK(eventually([&] { return a.device.stats().engine.drops.wrong_state > 0; }));
  CHECK(a.qps[0].query().resolving);
  CHECK(a.target == std::vector<std::uint8_t>(a.target.size()));
  connect_by_gid(b.qps[0], psn, a.device.gid(), a.qps[0].qpn(), kPsnA);
  copy_one(b, b.qps[0], a);
}

TEST_CASE("by GID: an OpenMRC peer that was silent is foreign until it is known") {
  Side a(test_config("loopback:1")), b(Pair::other(test_config("loopback:1")));
  b.device.set_faults("blackhole");
  connect_by_gid(a.add_qp(), kPsnA, b.device.gid(), b.add_qp().qpn(), kPsnB);
  CHECK(eventually([&] { return !a.qps[0].query().resolving; }));
  REQUIRE(a.device.stats().connected.size() == 1);
  CHECK(a.device.stats().connected[0].foreign);  // so its packets leave one by one
  b.device.set_faults("");
  connect_by_gid(b.qps[0], kPsnB, a.device.gid(), a.qps[0].qpn(), kPsnA);
  copy_one(a, a.qps[0], b);
  REQUIRE(a.device.stats().connected.size() == 1);
  CHECK_FALSE(a.device.stats().connected[0].foreign);
}

TEST_CASE("by GID: peers whose UDP port is another") {
  Config config = test_config(), other = Pair::other(test_config());
  other.udp_port = 22000;
  SUBCASE("an OpenMRC device, whose slot is added") {
    config.peer_ports = "127.0.0.9=1,127.0.0.0/8=22000";
    other.peer_ports = "127.0.0.0/8=21000";
    Side a(config), b(other);
    connect_by_gid(a, a.add_qp(), b, b.add_qp());
    copy_one(a, a.qps[0], b);
    copy_one(b, b.qps[0], a);
    CHECK(a.device.paths(a.qps[0]).size() == 8);
  }
  SUBCASE("another implementation, at exactly that port") {
    PlainSide b(other);
    const ConnectionInfo info = b.add_qp().local_info();
    config.peer_ports = "127.0.0.0/8=" + std::to_string(info.planes[0].udp_port);
    config.peer = PeerKind::mrc;
    Side a(config);
    b.join(a.add_qp());
    connect_by_gid(a.qps[0], kPsnA, b.device.gid(), info.qpn, info.start_psn);
    copy_one(a, a.qps[0], b);
  }
}

}  // namespace gid_foreign_test
