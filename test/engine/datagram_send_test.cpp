// SPDX-License-Identifier: Apache-2.0
// How unreliable datagrams are sent: paths, classes, ports that refuse or hold them, turns.
#include <doctest/doctest.h>

#include <set>

#include "support/datagrams.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("datagram: what a port hands back goes out later, all of it once") {
  Datagrams d;
  for (std::uint32_t i = 0; i < 10; ++i) {
    REQUIRE(d.post(0, {.id = i, .offset = i * 100, .to = {.flow_label = i}}) == Errc::ok);
  }
  wire::TxBurst burst(64, 256);
  d.a().poll_transmit(d.pair.now(), ~PlaneMask{0}, burst);
  REQUIRE(burst.size() == 10);
  CHECK(d.sends(0).empty());  // ports may still hand all of it back
  std::set<std::uint32_t> psns;
  const auto note = [&](std::span<const wire::TxPacket> packets) {
    for (const wire::TxPacket& p : packets)
      CHECK(psns.insert(wire::view_as<wire::Bth>(Bytes(p.header)).psn().value()).second);
  };
  note(burst.packets().first(2));
  note(burst.packets().subspan(5, 3));
  d.a().on_untransmitted(d.pair.now(), burst.packets().subspan(2, 3));
  d.a().on_untransmitted(d.pair.now(), burst.packets().subspan(8));
  burst.clear();
  d.a().poll_transmit(d.pair.now(), 0, burst);  // no port has room
  CHECK(burst.empty());
  CHECK(d.sends(0).size() == 2);  // in order, up to the first that is back
  d.a().poll_transmit(d.pair.now(), ~PlaneMask{0}, burst);
  CHECK(burst.size() == 5);
  note(burst.packets());
  burst.clear();
  d.a().poll_transmit(d.pair.now(), ~PlaneMask{0}, burst);
  CHECK(burst.empty());
  const auto sent = d.sends(0);
  REQUIRE(sent.size() == 8);
  for (std::size_t i = 0; i < sent.size(); ++i) CHECK(sent[i].wr_id == i + 2);
  CHECK_FALSE(d.a().has_output());
  CHECK(d.a().stats().tx_datagrams == 10);
}

TEST_CASE("datagram: the plane of the address while it is up, then another, then none") {
  Datagrams d;
  std::vector<SeenDatagram> seen;
  watch(d, seen);
  const auto send = [&] {
    seen.clear();
    REQUIRE(d.post(0, {}) == Errc::ok);
    d.pair.run_for(1ms);
    CHECK(d.sends(0).size() == 1);  // wherever it is lost
  };
  send();
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].plane == 0);
  d.a().set_plane_up(d.pair.now(), 0, false);
  send();
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].plane == 1);
  for (Plane plane = 1; plane < 4; ++plane) d.a().set_plane_up(d.pair.now(), plane, false);
  send();
  CHECK(seen.empty());
  CHECK(d.a().stats().tx_datagrams_lost == 1);
  d.a().set_plane_up(d.pair.now(), 0, true);
  send();
  CHECK(seen.size() == 1);
}

TEST_CASE(
    "datagram: a device's paths can be replaced while datagrams wait; without any they are lost") {
  Datagrams d;
  std::vector<SeenDatagram> seen;
  watch(d, seen);
  const auto send = [&] {
    seen.clear();
    for (std::uint32_t label = 0; label < 16; ++label)
      REQUIRE(d.post(0, {.to = {.flow_label = label}}) == Errc::ok);
    d.pair.run_for(1ms);
    CHECK(d.sends(0).size() == 16);  // wherever they are lost
  };
  const std::vector<path::PathSpec> paths{{Ev{7}, 2, 0}, {Ev{8}, 3, 0}, {Ev{9}, 2, 1}};
  set_destination_paths(d.a(), d.ends[0].other, paths);
  send();
  REQUIRE(seen.size() == 16);
  for (const SeenDatagram& one : seen)
    CHECK((one.plane == 2 && (one.ev == Ev{7} || one.ev == Ev{9})));
  prefer_plane(d.a(), d.ends[0].other, 3);
  send();
  REQUIRE(seen.size() == 16);
  for (const SeenDatagram& one : seen) CHECK(one.ev == Ev{8});
  set_destination_paths(d.a(), d.ends[0].other, {});
  send();
  CHECK(seen.empty());
  CHECK(d.a().stats().tx_datagrams_lost == 16);
  set_destination_paths(d.a(), d.ends[0].other, paths);
  send();
  CHECK(seen.size() == 16);
}

TEST_CASE("datagram: one path for each flow, many for many; its class is never one to be trimmed") {
  Datagrams d;
  std::vector<SeenDatagram> seen;
  watch(d, seen);
  std::set<std::uint32_t> paths;
  for (std::uint32_t label = 0; label < 32; ++label) {
    seen.clear();
    for (unsigned i = 0; i < 2; ++i) REQUIRE(d.post(0, {.to = {.flow_label = label}}) == Errc::ok);
    d.pair.run_for(1ms);
    REQUIRE(seen.size() == 2);
    CHECK(seen[0].ev == seen[1].ev);
    paths.insert(value(seen[0].ev));
  }
  CHECK(paths.size() == 4);
  const wire::DscpMap& map = d.a().options().dscp;
  const auto dscp_for = [&](std::uint8_t traffic_class) {
    seen.clear();
    REQUIRE(d.post(0, {.to = {.traffic_class = traffic_class}}) == Errc::ok);
    d.pair.run_for(1ms);
    return seen.at(0).dscp;
  };
  CHECK(dscp_for(0) == map.no_trim);
  CHECK(dscp_for(0x81) == 0x20);
  CHECK(seen[0].ecn == Ecn::ect1);
  CHECK(dscp_for(0x83) == 0x20);
  CHECK(seen[0].ecn == Ecn::ect0);
  for (const auto trims : {map.trimmable, map.trimmable_retx, map.trimmed, map.trimmed_last_hop})
    CHECK(dscp_for(static_cast<std::uint8_t>(trims << 2)) == map.no_trim);
}

TEST_CASE("datagram: ports that read later hold completions back") {
  DatagramSetup setup;
  setup.pair.habits.holds = true;
  setup.pair.habits.longest_hold = 50us;
  setup.pair.options.held_copies = 8;  // fewer than there are datagrams
  Datagrams d(setup);
  for (std::uint32_t i = 0; i < 64; ++i) {
    REQUIRE(d.receive(1, i) == Errc::ok);
    REQUIRE(d.post(0, {.id = i, .offset = i * 1000, .length = 1000}) == Errc::ok);
  }
  std::size_t sent = 0;
  (void)d.pair.run_for(100ms, [&] {
    for (const Completion& c : d.sends(0)) {
      CHECK(c.wr_id == sent++);
      auto* bytes = d.ends[0].source.data() + c.wr_id * 1000;
      std::fill(bytes, bytes + 1000, std::uint8_t{0x5A});  // the program's again
    }
    return sent == 64;
  });
  CHECK(sent == 64);
  d.pair.run_for(1ms);
  const auto got = d.receives(1);
  CHECK(got.size() == 64);
  for (const Completion& c : got) {
    const std::uint8_t* bytes = d.target(1, c.wr_id) + kGrhBytes;
    CHECK(std::count(bytes, bytes + 1000, 0x5A) < 100);
  }
  CHECK(d.pair.held(0) == 0);
  CHECK(d.a().copies_held(d.ends[0].source_key) == 0);
}

TEST_CASE("datagram: MRC and datagrams share a port, and neither waits for the other") {
  DatagramSetup setup;
  setup.pair.planes = 1;
  setup.pair.options.burst = 4;
  setup.capacity.send = 4096;
  setup.cq_depth = 1 << 16;
  Datagrams d(setup);
  TrafficOptions options;
  options.messages = 50;
  Traffic traffic(d.pair, options, 1);
  for (std::uint32_t i = 0; i < 4096; ++i) REQUIRE(d.post(0, {.length = 1000}) == Errc::ok);
  std::vector<bool> kinds;  // true: a datagram
  d.pair.tap = [&](unsigned side, const wire::TxPacket& p, std::vector<std::uint8_t>&) {
    const auto op = wire::view_as<wire::Bth>(Bytes(p.header)).opcode();
    if (side == 0 && (wire::is_datagram(op) || wire::is_write(op)))
      kinds.push_back(wire::is_datagram(op));
  };
  traffic.work();
  wire::TxBurst burst(256, 1024);
  d.a().poll_transmit(d.pair.now(), 1, burst);
  // Turns of the one peer and of the datagrams follow each other, burst by burst, as long as the
  // congestion window has room.
  for (const wire::TxPacket& p : burst.packets()) {
    const auto op = wire::view_as<wire::Bth>(Bytes(p.header)).opcode();
    kinds.push_back(wire::is_datagram(op));
  }
  REQUIRE(kinds.size() > 64);
  const auto datagrams = std::count(kinds.begin(), kinds.begin() + 64, true);
  CHECK(datagrams >= 28);
  CHECK(datagrams <= 36);
}
