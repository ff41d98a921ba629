// SPDX-License-Identifier: Apache-2.0
// Connecting by GID while planes are down: any plane that works will do.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <thread>
#include <vector>

#include "gid_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace gid_planes_test {

/// Faults by which the planes of the mask are down.
std::string down(unsigned mask) {
  std::string faults;
  for (unsigned plane = 0; mask >> plane != 0; ++plane)
    if ((mask >> plane & 1) != 0)
      faults += (faults.empty() ? "plane=" : ";plane=") + std::to_string(plane) + ",down";
  return faults;
}

Errc send_one(Side& from, QueuePair& qp, std::uint64_t id) {
  const Sge sge = from.sge(0, 1000);
  SendRequest request;
  request.opcode = SendOpcode::send;
  request.wr_id = id;
  request.sges = {&sge, 1};
  return qp.post_send(request);
}

TEST_CASE("by GID: any plane that is up will do, on either side") {
  std::string planes = "loopback:3";
  SUBCASE("IPv4") {}
  SUBCASE("IPv6") {
    if (!has_ipv6()) return;
    planes = "loopback6:3";
  }
  for (unsigned dead_a = 0; dead_a < 7; ++dead_a)
    for (unsigned dead_b = 0; dead_b < 7; ++dead_b) {
      CAPTURE(dead_a);
      CAPTURE(dead_b);
      Config config = test_config(planes), other = Pair::other(config);
      config.peer = other.peer = PeerKind::openmrc;
      config.faults = down(dead_a);
      other.faults = down(dead_b);
      Side a(config, 4096), b(other, 4096);
      if (planes == "loopback:3") {
        CHECK(a.device.gid()[15] == 1 + std::countr_one(dead_a));
        CHECK(b.device.gid()[15] == 1 + std::countr_one(dead_b));
      }
      connect_by_gid(a, a.add_qp(), b, b.add_qp());
      if ((dead_a | dead_b) != 7) {  // data needs a plane that works at both ends
        copy_one(a, a.qps[0], b);
        copy_one(b, b.qps[0], a);
      } else {
        CHECK(
            eventually([&] { return !a.qps[0].query().resolving && !b.qps[0].query().resolving; }));
      }
    }
}

TEST_CASE("by GID: a host is found by the address of any of its planes") {
  Side a(test_config("loopback:3"));
  const Config config = Pair::other(test_config("loopback:3"));
  Side b(config);
  a.qps.reserve(9);
  b.qps.reserve(9);
  for (unsigned i = 0; i < 3; ++i)
    for (unsigned j = 0; j < 3; ++j) {
      const auto gid = [](const Side& side, unsigned plane) {
        return port::parse_address(side.device.plane_names()[plane]).ip;
      };
      QueuePair &qa = a.add_qp(), &qb = b.add_qp();
      connect_by_gid(qa, kPsnA, gid(b, j), qb.qpn(), kPsnB);
      connect_by_gid(qb, kPsnB, gid(a, i), qa.qpn(), kPsnA);
      std::fill(b.target.begin(), b.target.end(), std::uint8_t{0});
      copy_one(a, qa, b);
      CHECK(a.device.paths(qa).size() == 12);
    }
}

TEST_CASE("by GID: the plane of the GID is a black hole, and the log says who has answered") {
  Config config = test_config();
  LogLines lines;
  lines.capture(config);
  config.peer = PeerKind::openmrc;
  config.faults = "plane=0,blackhole";
  Config other = Pair::other(config);
  other.log = LogLevel::off;
  Side a(config), b(other);
  CHECK(a.device.gid()[15] == 1);  // nobody knows
  connect_by_gid(a, a.add_qp(), b, b.add_qp());
  copy_one(a, a.qps[0], b);
  copy_one(b, b.qps[0], a);
  CHECK(lines.count("found by plane 1 to 127.0.0.2, not by plane 0 to 127.0.0.1") > 0);
}

TEST_CASE("by GID: the GID is that of a plane that is up, and stays while it is") {
  Side a(test_config("loopback:3"));
  const auto number = [&] { return a.device.gid()[15]; };
  CHECK(number() == 1);
  a.device.set_faults("plane=0,down");
  CHECK(number() == 2);
  a.device.set_faults("");
  CHECK(number() == 2);
  a.device.set_faults("down");
  CHECK(number() == 2);
  a.device.set_faults("plane=1,down");
  CHECK(number() == 1);
}

TEST_CASE("by GID: an outage at the start delays what waits, whatever it is") {
  Config config = test_config();
  config.connect_timeout = 4s;  // a peer is presumed after 800 ms
  std::string faults;
  SUBCASE("links are down") {
    faults = "down@0ms-1500ms";
  }
  SUBCASE("links seem to be up") {
    faults = "blackhole@0ms-1500ms";
  }
  config.faults = faults;
  Side a(config), b(Pair::other(config));
  QpCapacity capacity;
  capacity.receive_sges = 1;
  connect_by_gid(a, a.add_qp(), b, b.add_qp(capacity));
  const Sge room{b.target.data(), 1000, b.target_region.lkey()};
  REQUIRE(b.qps[0].post_receive(ReceiveRequest{1, {&room, 1}}) == Errc::ok);
  bool late = false;
  SUBCASE("the SEND is posted at once") {}
  SUBCASE("or when the peer has been taken for another make") {
    late = true;
  }
  if (late) std::this_thread::sleep_for(1000ms);
  REQUIRE(send_one(a, a.qps[0], 7) == Errc::ok);
  const Completion done = a.await_one();
  INFO(a.qps[0].error_text());
  CHECK(done.status == WcStatus::success);
  CHECK(b.await_one().wr_id == 1);
  CHECK(a.device.stats().peers == 1);
}

TEST_CASE("by GID: a SEND to nobody fails after connect_timeout, and says which ways were tried") {
  Config config = test_config();
  config.connect_timeout = 500ms;
  Side a(config);
  connect_by_gid(a.add_qp(), kPsnA, port::parse_ip("127.0.0.9"), Qpn{0x050004}, kPsnB);
  REQUIRE(send_one(a, a.qps[0], 3) == Errc::ok);
  const Completion done = a.await_one();
  CHECK(done.wr_id == 3);
  CHECK(done.status == WcStatus::retry_exc_err);
  const std::string text = a.qps[0].error_text();
  CAPTURE(text);
  CHECK(contains(text, "a SEND, READ or atomic that waits needs one"));
  CHECK(contains(text, "asked by plane 0 to 127.0.0.9, plane 1 to 127.0.0.9"));
  CHECK(contains(text, "no UDP packet of it has arrived: are UDP ports"));
  CHECK(a.device.stats().peers == 0);
}

TEST_CASE("by GID: packets that pass one way only are told apart from none at all") {
  Config config = test_config();
  config.connect_timeout = 500ms;
  Config deaf = Pair::other(config);
  deaf.faults = "loss=1";  // of what it receives
  Side a(config), b(deaf);
  connect_by_gid(a, a.add_qp(), b, b.add_qp());
  for (Side* side : {&a, &b}) REQUIRE(send_one(*side, side->qps[0], 3) == Errc::ok);
  for (Side* side : {&a, &b}) CHECK(side->await_one().status == WcStatus::retry_exc_err);
  const std::string at_a = a.qps[0].error_text(), at_b = b.qps[0].error_text();
  CAPTURE(at_a);
  CAPTURE(at_b);
  CHECK(contains(at_a, "its packets arrive, but no answer to this side's: are UDP ports"));
  CHECK(contains(at_b, "no UDP packet of it has arrived: are UDP ports"));
}

TEST_CASE("by GID: a device that was once known as OpenMRC is not taken for another make") {
  Config config = test_config();
  config.connect_timeout = 1s;
  GidPair pair(config);
  copy_one(pair.a, pair.a.qps[0], pair.b);
  pair.b.device.set_faults("blackhole");
  pair.a.qps.reserve(2);
  QueuePair& second = pair.a.add_qp();
  connect_by_gid(second, kPsnA, pair.b.device.gid(), Qpn{value(pair.b.qps[0].qpn()) + 1}, kPsnB);
  REQUIRE(post_copy(pair.a, second, pair.b, 0, 100, 5) == Errc::ok);
  Completion done = pair.a.await_one();
  while (done.wr_id != 5) done = pair.a.await_one();
  CHECK(done.status == WcStatus::retry_exc_err);
  const std::string text = second.error_text();
  CAPTURE(text);
  CHECK(contains(text, "no OpenMRC device answers there any more, as one did before"));
}

}  // namespace gid_planes_test
