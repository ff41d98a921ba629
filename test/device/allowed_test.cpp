// SPDX-License-Identifier: Apache-2.0
// Option peers_allowed: who may connect, who is refused, and how both are seen.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gid_rig.hpp"
#include "mrc/stats_json.hpp"

using namespace mrc;
using namespace mrc::test;

namespace allowed_test {

constexpr Psn kAnyPsn{77};

/// Config of a device at one address of the loopback network, which lets those networks in.
Config at(const std::string& address, const std::string& allowed, std::uint64_t seed = 1) {
  Config config = test_config("loopback:1", seed);
  config.planes = {address};
  config.peers_allowed = allowed;
  return config;
}

void ask_for(QueuePair& qp, const port::IpAddress& gid, Qpn remote) {
  qp.modify(to(QpState::init));
  qp.modify(to_rtr(gid, remote, kAnyPsn));
}

TEST_CASE("peers allowed: this side can't connect to others, and hears why") {
  Side a(at("127.0.0.1", "127.0.0.1,10.0.0.0/8")), b(at("127.0.0.5", "", 2));
  a.qps.reserve(2);
  const ConnectionInfo info = b.add_qp().local_info();
  const std::string why = error_of([&] { a.add_qp().connect(info); });
  CHECK(contains(why, "127.0.0.5"));
  CHECK(contains(why, "peers_allowed"));
  CHECK(a.qps[0].state() == QpState::reset);
  CHECK(
      contains(error_of([&] { ask_for(a.add_qp(), b.device.gid(), info.qpn); }), "peers_allowed"));
  CHECK(a.device.stats().peers == 0);
}

TEST_CASE("peers allowed: others that ask by GID get no answer, and are counted") {
  LogLines lines;
  Config config = at("127.0.0.1", "127.0.0.1,10.0.0.0/8");
  lines.capture(config);
  Side a(config), stranger(at("127.0.0.5", "", 2)), friendly(at("127.0.0.1", "", 3));
  ask_for(stranger.add_qp(), a.device.gid(), a.add_qp().qpn());
  CHECK(eventually([&] { return a.device.stats().peers_refused >= 5; }));
  CHECK(stranger.qps[0].query().resolving);
  CHECK(stranger.device.stats().engine.rx_control == 0);
  CHECK(lines.count("127.0.0.5") >= 1);
  CHECK(lines.count("option peers_allowed leaves it out") < 6);  // as the count doubles
  ask_for(friendly.add_qp(), a.device.gid(), a.qps[0].qpn());
  ask_for(a.qps[0], friendly.device.gid(), friendly.qps[0].qpn());
  CHECK(eventually(
      [&] { return !a.qps[0].query().resolving && !friendly.qps[0].query().resolving; }));
}

TEST_CASE("peers allowed: datagrams of others are dropped and counted") {
  DatagramOptions options;
  Side a(at("127.0.0.1", "127.0.0.0/30")), stranger(at("127.0.0.5", "", 2));
  const auto add = [&options](Side& side) {
    options.send_cq = &side.cq;
    DatagramQueuePair ud = side.device.create_datagram_qp(options);
    REQUIRE(ud.start(1) == Errc::ok);
    return ud;
  };
  DatagramQueuePair to = add(a), from = add(stranger);
  DatagramRequest request;
  request.to.gid = a.device.gid();
  request.remote_qpn = to.qpn();
  request.remote_q_key = 1;
  const Sge sge = stranger.sge(0, 100);
  request.sges = {&sge, 1};
  REQUIRE(from.post_send(request) == Errc::ok);
  CHECK(eventually([&] { return a.device.stats().peers_refused == 1; }));
  CHECK(to.query().stats.rx_packets == 0);
  CHECK(a.device.stats().engine.drops.no_receive == 0);
  request.to.gid = stranger.device.gid();
  request.remote_qpn = from.qpn();
  CHECK(to.post_send(request) == Errc::unreachable);
}

TEST_CASE("who is connected is in the log, in the statistics and in their JSON") {
  LogLines lines;
  Config config = at("127.0.0.1", "127.0.0.0/8");
  lines.capture(config);
  Side a(config), b(at("127.0.0.5", "", 2));
  b.qps.reserve(2);
  a.qps.reserve(2);
  connect(a.add_qp(), b.add_qp());
  connect(a.add_qp(), b.add_qp());
  const std::string peer = port::format_address(b.qps[0].local_info().planes[0]);
  CHECK(lines.count("connected to peer " + peer) == 1);  // once for both
  const DeviceStats stats = a.device.stats();
  REQUIRE(stats.connected.size() == 1);
  CHECK(stats.connected[0].addresses == peer);
  CHECK(stats.connected[0].queue_pairs == 2);
  CHECK_FALSE(stats.connected[0].foreign);
  CHECK(to_json(stats)["connected"][0]["addresses"] == peer);
  CHECK(to_json(stats)["peers_refused"] == 0);
  a.qps.clear();
  CHECK(a.device.stats().connected.empty());
}

}  // namespace allowed_test
