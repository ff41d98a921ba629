// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/network.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "mrc/fabric/packet.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace network_test {

/// Keeps what comes in and what it was told.
struct Arrivals : Node {
  struct Got {
    Time when;
    std::uint32_t length;
    Ecn ecn;
    bool trimmed, corrupted;
    std::uint8_t dscp;
  };
  explicit Arrivals(Network& n) : network(n), id(n.add_node(*this)) {}
  void on_packet(LinkId, PacketId packet) override {
    const Packet& p = network.packets()[packet];
    got.push_back(
        {network.now(), p.length, p.outer().ecn(), p.trimmed, p.corrupted, p.outer().dscp()});
    network.drop(packet, PacketFate::arrived);
  }
  void on_link_state(LinkId, bool up) override { states.push_back(up); }
  void on_timer(std::uint32_t token) override { tokens.push_back(token); }
  Network& network;
  NodeId id;
  std::vector<Got> got;
  std::vector<bool> states;
  std::vector<std::uint32_t> tokens;
};

/// Two nodes and a link.
struct NetworkRig {
  explicit NetworkRig(const LinkSettings& settings = {}, std::uint64_t seed = 1)
      : network(seed), from(network), to(network) {
    link = network.add_link(from.id, to.id, settings, "a>b");
  }
  /// A packet of `payload` bytes in the data class, or a control packet.
  PacketId packet(std::uint32_t payload, TrafficClass traffic = TrafficClass::data,
                  std::uint8_t dscp = 4, Ecn ecn = Ecn::ect0) {
    const PacketId id = network.packets().take();
    Packet& p = network.packets()[id];
    wire::Envelope e;
    e.source = {0xFD, 1};
    e.destination = {0xFD, 2};
    e.dscp = dscp;
    e.ecn = ecn;
    const std::size_t before = wire::build_envelope(p.head, e, 40 + payload + 4);
    p.udp = static_cast<std::uint16_t>(before - sizeof(wire::Udp));
    p.inner_ip = 0;
    p.head_length = static_cast<std::uint16_t>(before + 40);
    p.length = p.head_length + payload + 4;
    p.traffic = traffic;
    p.trimmed = p.corrupted = false;
    p.ingress = kNoLink;
    p.payload.clear();
    return id;
  }
  void send(std::uint32_t payload) { network.send(link, packet(payload)); }
  [[nodiscard]] const LinkStats& stats() const { return network[link].stats; }

  Network network;
  Arrivals from, to;
  LinkId link;
};

LinkSettings settings(double gbps, Duration delay) {
  LinkSettings s;
  s.gbps = gbps;
  s.delay = delay;
  return s;
}

TEST_CASE("link: serialisation by its rate, then its delay; packets follow each other") {
  NetworkRig rig(settings(100, 500ns));
  const std::uint32_t wire = 92 + 4000 + kEthernetOverhead;  // 4,130 bytes are 330.4 ns
  rig.send(4000);
  rig.send(4000);
  rig.send(4000);
  rig.network.run_until(Time{1ms});
  REQUIRE(rig.to.got.size() == 3);
  CHECK(wire == 4130);
  CHECK(rig.to.got[0].when == Time{831ns});   // 330.4 + 500, in whole nanoseconds
  CHECK(rig.to.got[1].when == Time{1161ns});  // 660.8: rounding does not add up
  CHECK(rig.to.got[2].when == Time{1492ns});  // 991.2
  CHECK(rig.stats().packets == 3);
  CHECK(rig.stats().bytes == 3 * wire);
  CHECK(rig.network.packets().in_use() == 0);
}

TEST_CASE("queue: control goes first, data in order; a full one drops") {
  LinkSettings s = settings(1, 10ns);
  s.queue.data_limit = 3 * 1130;
  NetworkRig rig(s);
  for (std::uint32_t i = 0; i < 6; ++i) rig.send(1000 - i);  // one is sent, three wait
  rig.network.send(rig.link, rig.packet(10, TrafficClass::control));
  rig.network.run_until(Time{1ms});
  REQUIRE(rig.to.got.size() == 5);
  CHECK(rig.to.got[0].length == 1092);
  CHECK(rig.to.got[1].length == 102);
  for (std::uint32_t i = 1; i < 4; ++i) CHECK(rig.to.got[i + 1].length == 1092 - i);
  CHECK(rig.stats().dropped == 2);
  CHECK(rig.network.packets().in_use() == 0);
}

TEST_CASE("queue: ECN from the ramp's end on, never below its begin, not on Not-ECT") {
  LinkSettings s = settings(1, 10ns);
  s.queue.ecn_min = 2000;
  s.queue.ecn_max = 6000;
  NetworkRig rig(s);
  for (int i = 0; i < 12; ++i) rig.send(1000);
  rig.network.send(rig.link, rig.packet(1000, TrafficClass::data, 4, Ecn::not_ect));
  rig.network.run_until(Time{1ms});
  REQUIRE(rig.to.got.size() == 13);
  for (std::size_t i = 0; i < 3; ++i) CHECK(rig.to.got[i].ecn == Ecn::ect0);
  // The first is sent at once, so the n-th finds n - 1 in the queue: 6 x 1,130 bytes at the eighth.
  for (std::size_t i = 7; i < 12; ++i) CHECK(rig.to.got[i].ecn == Ecn::ce);
  CHECK(rig.to.got[12].ecn == Ecn::not_ect);
  CHECK(rig.stats().marked >= 5);
}

TEST_CASE("queue: the ramp marks in proportion") {
  LinkSettings s = settings(100, 10ns);
  s.queue.ecn_max = 1'000'000;
  s.queue.data_limit = 1'000'000;
  s.queue.ecn_probability = 0.5;
  NetworkRig rig(s);
  for (int i = 0; i < 500; ++i) rig.send(872);  // 1,002 bytes each: half a megabyte in the end
  rig.network.run_until(Time{1ms});
  // The depth grows evenly from 0 to a half, so the share is 0.5 x 0.25 of 500.
  CHECK(rig.stats().marked > 40);
  CHECK(rig.stats().marked < 90);
}

TEST_CASE("queue: trims what may be trimmed, just as wire::trim_packet() does") {
  LinkSettings s = settings(1, 10ns);
  s.queue.data_limit = 1200;
  s.queue.overflow = Overflow::trim;
  s.queue.trimmed_dscp = 12;
  NetworkRig rig(s);
  const PacketId whole = rig.packet(1000);
  std::vector<std::uint8_t> bytes(rig.network.packets()[whole].length);
  const Packet& p = rig.network.packets()[whole];
  std::copy(p.head.begin(), p.head.begin() + p.head_length, bytes.begin());
  const std::size_t cut = wire::trim_packet(bytes, wire::kTrimKeep, 12);
  rig.send(1000);
  rig.send(1000);
  rig.network.send(rig.link, whole);
  const std::vector<std::uint8_t> head(p.head.begin(), p.head.begin() + p.head_length);
  CHECK(p.trimmed);
  CHECK(head.size() == cut);
  CHECK(std::equal(head.begin(), head.end(), bytes.begin()));
  rig.network.send(rig.link, rig.packet(1000, TrafficClass::data, 0));  // NO_TRIM
  rig.network.run_until(Time{1ms});
  REQUIRE(rig.to.got.size() == 3);
  CHECK(rig.to.got[1].trimmed);  // overtakes, in the control class
  CHECK(rig.to.got[1].dscp == 12);
  CHECK(rig.to.got[1].length == cut);
  CHECK(rig.stats().trimmed == 1);
  CHECK(rig.stats().dropped == 1);
}

TEST_CASE("link: down loses what waits and what is under way, and both ends hear of it") {
  NetworkRig rig(settings(1, 50us));
  for (int i = 0; i < 10; ++i) rig.send(1000);  // 9 us each
  rig.network.call_at(Time{30us}, [&] { rig.network.set_link_up(rig.link, false); });
  rig.network.call_at(Time{40us}, [&] { rig.send(1000); });
  rig.network.call_at(Time{60us}, [&] { rig.network.set_link_up(rig.link, true); });
  rig.network.call_at(Time{61us}, [&] { rig.send(500); });
  rig.network.run_until(Time{1ms});
  REQUIRE(rig.to.got.size() == 1);
  CHECK(rig.to.got[0].length == 592);
  CHECK(rig.stats().lost == 10);
  CHECK(rig.stats().refused == 1);
  CHECK(rig.stats().last_refused == Time{40us});
  CHECK(rig.from.states == std::vector<bool>{false, true});
  CHECK(rig.to.states == std::vector<bool>{false, true});
  CHECK(rig.network.packets().in_use() == 0);
}

TEST_CASE("link: loss, corruption and a lower rate") {
  NetworkRig rig(settings(100, 10ns));
  rig.network.set_loss(rig.link, 0.3);
  rig.network.set_corruption(rig.link, 0.2);
  rig.network.set_slow(rig.link, 100);
  for (int i = 0; i < 100; ++i) rig.send(1000);
  rig.network.run_until(Time{1ms});
  CHECK(rig.stats().lost > 15);
  CHECK(rig.stats().lost < 45);
  std::uint64_t bad = 0;
  for (const auto& got : rig.to.got) bad += got.corrupted;
  CHECK(bad == rig.stats().corrupted);
  CHECK(bad > 4);
  CHECK(rig.to.got.back().when > Time{850us});  // 1 Gb/s
}

TEST_CASE("shared buffer: a queue takes its part of what is free") {
  LinkSettings s = settings(1, 10ns);
  s.queue.data_limit = 1;  // not asked
  NetworkRig rig(s);
  Arrivals third(rig.network);
  const LinkId other = rig.network.add_link(rig.from.id, third.id, s, "a>c");
  const LinkId both[] = {rig.link, other};
  rig.network.share_buffer(both, 12 * 1130, 1);
  for (int i = 0; i < 30; ++i) rig.send(1000);
  for (int i = 0; i < 30; ++i) rig.network.send(other, rig.packet(1000));
  rig.network.run_until(Time{1ms});
  CHECK(rig.to.got.size() == 1 + 6);  // alpha 1: as much as stays free
  CHECK(third.got.size() == 1 + 3);   // half of the rest
}

TEST_CASE("flow control: a full buffer stops the link that fills it, and nothing is lost") {
  struct Relay : Node {
    explicit Relay(Network& n) : network(n), id(n.add_node(*this)) {}
    void on_packet(LinkId, PacketId p) override { network.send(out, p); }
    Network& network;
    NodeId id;
    LinkId out{};
  };
  Network network(1);
  Arrivals from(network), to(network);
  Relay relay(network);
  LinkSettings fast = settings(10, 100ns), slow = settings(1, 100ns);
  fast.queue.data_limit = slow.queue.data_limit = 40'000;
  const LinkId in = network.add_link(from.id, relay.id, fast, "a>r");
  relay.out = network.add_link(relay.id, to.id, slow, "r>b");
  network.set_pfc(relay.id, {.xoff = 10'000, .xon = 5'000});
  NetworkRig helper;
  for (int i = 0; i < 30; ++i) {
    const PacketId id = helper.packet(1000);
    const PacketId own = network.packets().take();
    network.packets()[own] = helper.network.packets()[id];
    network.send(in, own);
  }
  network.run_until(Time{10ms});
  CHECK(to.got.size() == 30);
  CHECK(network[in].stats.pauses > 1);
  CHECK(network[in].stats.paused > 50us);
  CHECK(network[relay.out].stats.max_queue < 14'000);  // xoff and what was under way
  CHECK(network[relay.out].stats.dropped == 0);
}

TEST_CASE("network: timers, calls and stopping; the digest tells runs apart") {
  const auto run = [](std::uint64_t seed, Duration last) {
    NetworkRig rig(settings(100, 10ns), seed);
    rig.network.set_loss(rig.link, 0.5);
    rig.network.wake(rig.to.id, Time{5us}, 42);
    std::function<void()> again = [&] {
      rig.send(100);
      if (rig.network.now() < Time{last}) rig.network.call_at(rig.network.now() + 1us, again);
    };
    rig.network.call_at(Time{0us}, again);
    rig.network.run_until(Time{1ms});
    CHECK(rig.to.tokens == std::vector<std::uint32_t>{42});
    CHECK(rig.network.now() == Time{1ms});
    return std::pair{rig.network.digest(), rig.network.events()};
  };
  CHECK(run(1, 100us) == run(1, 100us));
  CHECK(run(1, 100us).first != run(1, 101us).first);
  NetworkRig rig;
  rig.network.call_at(Time{3us}, [&] { rig.network.stop(); });
  rig.network.call_at(Time{4us}, [&] { FAIL("went on"); });
  rig.network.run_until(Time{1ms});
  CHECK(rig.network.now() == Time{3us});
}

}  // namespace network_test
