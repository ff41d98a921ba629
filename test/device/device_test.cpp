// SPDX-License-Identifier: Apache-2.0
// Opening devices, connecting them, and what they report.
#include "mrc/device.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device_rig.hpp"
#include "mrc/stats_json.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::test;

namespace device_test {

TEST_CASE("slots: processes on one address get numbers of their own") {
  std::vector<std::unique_ptr<Side>> sides;
  for (unsigned slot = 0; slot < 3; ++slot) {
    sides.push_back(std::make_unique<Side>(test_config("loopback:2", slot + 1), 4096));
    Side& side = *sides.back();
    CHECK(slot_of(side.add_qp().qpn()) == slot);
    CHECK(side.qps[0].local_info().slot == slot);
    CHECK(side.device.plane_names()[1] == "127.0.0.2:" + std::to_string(21000 + slot));
  }
  // A slot that was given up is the first free one again.
  sides.erase(sides.begin() + 1);
  sides.push_back(std::make_unique<Side>(test_config(), 4096));
  CHECK(slot_of(sides.back()->add_qp().qpn()) == 1);
  // All of them can talk to one another.
  connect(sides[0]->qps[0], sides[2]->qps[0]);
  REQUIRE(post_copy(*sides[0], sides[0]->qps[0], *sides[2], 0, 4096) == Errc::ok);
  CHECK(sides[0]->await_one().status == WcStatus::success);
  CHECK(sides[0]->source == sides[2]->target);
}

TEST_CASE("opening fails with plane, port and cause") {
  Config config = test_config();
  config.slot = 7;
  const Device first(config);
  const Error taken = thrown_by([&] { Device second(config); });
  CHECK(taken.code() == std::errc::address_in_use);
  CHECK(contains(taken.what(), "slot 7"));
  CHECK(contains(taken.what(), "127.0.0.1:21007"));

  const Error foreign = thrown_by([] { Device device(test_config("192.0.2.1")); });
  CHECK(foreign.code() == std::errc::address_not_available);
  CHECK(contains(foreign.what(), "192.0.2.1"));
  CHECK(contains(thrown_by([] { Device device(test_config("nosuch0")); }).what(), "nosuch0"));
  CHECK(thrown_by([] { Device device(test_config("loopback:33")); }).code() ==
        Errc::invalid_argument);

  config = test_config();
  config.udp_port = 65500;  // slots 0 to 255 do not fit there
  CHECK(contains(thrown_by([&] { Device device(config); }).what(), "65"));
  config = test_config();
  config.faults = "loss=2";
  CHECK(contains(thrown_by([&] { Device device(config); }).what(), "loss=2"));
  config = test_config();
  config.mtu = 1500;
  CHECK(contains(thrown_by([&] { Device device(config); }).what(), "mtu"));
}

TEST_CASE("connecting what does not fit throws and changes nothing") {
  Side a(test_config()), b(test_config("loopback:2", 2));
  QueuePair& qp = a.add_qp();
  const ConnectionInfo good = b.add_qp().local_info();
  const auto refusal = [&](const ConnectionInfo& info) {
    const Error error = thrown_by([&] { qp.connect(info); });
    CHECK(qp.state() == QpState::reset);
    CHECK(a.device.stats().peers == 0);
    return error;
  };
  ConnectionInfo info = good;
  info.icrc = false;
  CHECK(refusal(info).code() == Errc::incompatible);
  CHECK(contains(refusal(info).what(), "iCRC"));
  info = good;
  info.planes = {port::parse_address("[fd00::1]:4791"), port::parse_address("[fd00::2]:4791")};
  CHECK(refusal(info).code() == Errc::unreachable);
  CHECK(contains(refusal(info).what(), "IP version"));
  info.planes.clear();
  CHECK(refusal(info).code() == Errc::unreachable);
  info = good;
  ++info.network_namespace;
  CHECK(refusal(info).code() == Errc::unreachable);
  CHECK(contains(refusal(info).what(), "plane 0 of both sides is on a loopback address"));
  for (const std::uint64_t added : {0u, 1u}) {  // what a peer on another host tells, or nothing
    info.network_namespace = added == 0 ? 0 : good.network_namespace + added;
    info.planes = {port::parse_address("192.0.2.1:4791")};
    CHECK(refusal(info).code() == Errc::unreachable);
    CHECK(contains(refusal(info).what(), "plane 0 here is on a loopback address"));
  }
  info = good;
  info.mtu = 128;
  CHECK(refusal(info).code() == Errc::incompatible);
  info.mtu = 3000;
  CHECK(refusal(info).code() == Errc::incompatible);

  connect(qp, b.qps[0]);  // after all that
  const Error again = thrown_by([&] { qp.connect(good); });
  CHECK(again.code() == Errc::invalid_state);
  CHECK(contains(again.what(), "RTS"));
  CHECK(qp.state() == QpState::rts);
  REQUIRE(post_copy(a, qp, b, 0, 1000) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
}

TEST_CASE("default attributes are those of queue pairs that ask for none") {
  Config config = test_config();
  config.mtu = 1024;
  config.mpr = 16;
  config.timeout = 14;
  config.dynamic_mpr = false;
  Side side(config, 4096);
  QpAttributes a = side.device.default_attributes();
  CHECK(a.mtu == 1024);
  CHECK(a.mpr == 16);
  CHECK(a.mpr_dest == config.mpr_dest);
  CHECK(a.timeout == 14);
  CHECK_FALSE(a.dynamic_mpr);
  CHECK(side.add_qp().query().attributes.timeout == 14);
  // One changed, the others as they are.
  a.timeout = 9;
  QpOptions options;
  options.send_cq = &side.cq;
  options.attributes = a;
  const QpAttributes own = side.device.create_qp(options).query().attributes;
  CHECK(own.timeout == 9);
  CHECK(own.mtu == 1024);
  CHECK(own.mpr == 16);
}

TEST_CASE("only the planes that both sides have are used") {
  Pair pair(test_config("loopback:4"), test_config("loopback:2", 2));
  pair.copy_all();
  for (const PathReport& path : pair.a.device.paths(pair.a.qps[0])) CHECK(path.plane < 2);
  CHECK(pair.a.device.paths(pair.a.qps[0]).size() == 8);
}

TEST_CASE("peers share the receive buffer as told") {
  Config config = test_config();
  const auto window = [&](std::uint16_t shares) {
    config.expert.receive_shares = shares;
    Side side(config, 4096);
    return side.add_qp().local_info().receive_window;
  };
  const std::uint64_t whole = window(1);
  CHECK(whole >= 64 << 10);
  CHECK(window(4) == whole / 4);
  CHECK(window(4096) >= 2 * config.mtu);  // never too little for a packet
}

TEST_CASE("statistics count what happened") {
  Config config = test_config("loopback:2");
  config.mtu = 4096;
  Pair pair(config, 1 << 20);
  pair.copy_all();
  const DeviceStats a = pair.a.device.stats(), b = pair.b.device.stats();
  const QpStats qp = pair.a.qps[0].stats();
  constexpr std::uint64_t kPackets = (1 << 20) / 4096;
  CHECK(qp.tx_packets == kPackets);
  CHECK(qp.tx_bytes == 1 << 20);
  CHECK(qp.writes_completed == 16);
  CHECK(qp.outstanding == 0);
  CHECK(qp.inflight == 0);
  CHECK(qp.cwnd > 0);
  CHECK(a.engine.tx_data == kPackets);  // a second transmission is no first one
  CHECK(pair.b.qps[0].stats().rx_bytes == 1 << 20);
  CHECK(b.engine.rx_data >= kPackets);
  CHECK(b.engine.sacks_sent > 0);
  CHECK(a.engine.sacks_received > 0);
  CHECK(a.engine.sacks_received <= b.engine.sacks_sent);
  CHECK(a.engine.qp_errors == 0);

  std::uint64_t sent = 0, by_paths = 0, planes_bytes = 0;
  for (const PlaneStats& plane : a.planes) {
    sent += plane.port.tx_packets;
    planes_bytes += plane.port.tx_bytes;
    CHECK(plane.up);
    CHECK(plane.port.tx_calls <= plane.port.tx_packets);
    CHECK(plane.faults.lost == 0);
  }
  for (const PathReport& path : pair.a.device.paths(pair.a.qps[0])) {
    by_paths += path.packets;
    CHECK(path.delivered <= path.packets);
  }
  CHECK(sent == a.engine.tx_data + a.engine.tx_retransmits + a.engine.tx_control);
  CHECK(by_paths >= kPackets);
  CHECK(planes_bytes > 1 << 20);
  CHECK(a.qps == 1);
  CHECK(a.cqs == 1);
  CHECK(a.mrs == 2);
  CHECK(a.peers == 1);

  const auto j = nlohmann::json::parse(to_json(a).dump());
  CHECK(j.at("engine").at("tx_data") == a.engine.tx_data);
  CHECK(j.at("planes").size() == 2);
  CHECK(j.at("planes")[1].at("address") == "127.0.0.2:21000");
  CHECK(j.get<DeviceStats>().planes[0].port.tx_bytes == a.planes[0].port.tx_bytes);
}

TEST_CASE("a queue pair's round-trip time is in its statistics") {
  Pair pair(test_config(), 1 << 20);
  // Where the machine stands still for long, all packets of a copy are sent again, and the answers
  // to the first transmissions tell no time.
  for (int i = 0; i < 100 && pair.a.qps[0].stats().smoothed_rtt_ns == 0; ++i) pair.copy_all();
  CHECK(pair.a.qps[0].stats().smoothed_rtt_ns > 0);
}

TEST_CASE("opening and closing many devices leaks no descriptors") {
  { Pair warm_up; }
  const auto before = open_files();
  for (int i = 0; i < 10; ++i) {
    Pair pair(test_config(), 4096);
    pair.copy_all();
    if (i % 2 == 0) pair.a.cq = CompletionQueue();  // before its queue pair
    CHECK_THROWS(Device(test_config("192.0.2.1")));
  }
  CHECK(open_files() == before);
}

TEST_CASE("a peer is reached at the UDP port that it says: 4971 as well as 4791 [C-1]") {
  in_new_network([] {
    shell("ip link set lo up");
    Config config = test_config();
    config.udp_port = 4791;
    Pair pair(config, 1 << 18);
    QueuePair& a = pair.a.add_qp();
    QueuePair& b = pair.b.add_qp();
    REQUIRE(slot_of(a.qpn()) == 0);
    ConnectionInfo info = a.local_info();
    for (port::PeerAddress& plane : info.planes) {
      CHECK(plane.udp_port == 4791);
      plane.udp_port = 4971;
    }
    a.connect(b.local_info());
    b.connect(info);
    const std::uint64_t before = pair.a.device.stats().engine.rx_data;
    REQUIRE(post_copy(pair.b, b, pair.a, 0, 200'000) == Errc::ok);
    CHECK(pair.b.await_one().status == WcStatus::success);
    CHECK(
        std::equal(pair.b.source.begin(), pair.b.source.begin() + 200'000, pair.a.target.begin()));
    CHECK(pair.a.device.stats().engine.rx_data > before);
    for (const PlaneStats& plane : pair.a.device.stats().planes) CHECK(plane.rx_bad_icrc == 0);
  });
}

TEST_CASE("UDP sockets see no trimmed packets, so peers are not told to let switches trim") {
  Config config = test_config();
  Side a(config, 4096);
  CHECK_FALSE(a.add_qp().local_info().trim_nack);
  config.trim = port::Offload::on;
  Side b(config, 4096);
  CHECK(b.add_qp().local_info().trim_nack);
  config.trim = port::Offload::off;
  Side c(config, 4096);
  CHECK_FALSE(c.add_qp().local_info().trim_nack);
}

}  // namespace device_test
