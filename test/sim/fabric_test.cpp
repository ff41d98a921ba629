// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/fabric.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "mrc/fabric/packet.hpp"
#include "support/sim_rig.hpp"

using namespace mrc;
using namespace mrc::sim;
using namespace std::chrono_literals;

namespace fabric_test {

struct Sink : Node {
  explicit Sink(Network& n) : network(n) {}
  void on_packet(LinkId in, PacketId packet) override {
    came_by.push_back(in);
    last = network.packets()[packet];
    network.drop(packet, PacketFate::arrived);
  }
  Network& network;
  std::vector<LinkId> came_by;
  Packet last;
};

struct Rig : test::FabricRig<Sink> {
  using FabricRig::FabricRig;
  /// Sends a packet over a path and says by which links it went.
  std::vector<std::string> send(unsigned from, unsigned to, unsigned plane, unsigned uplink) {
    const PacketId id = network.packets().take();
    Packet& p = network.packets()[id];
    wire::Envelope e;
    e.source = Fabric::address(from, plane);
    e.destination = Fabric::address(to, plane);
    const Ev ev = fabric->ev(plane, uplink);
    const bool stev = fabric->settings().forwarding == Forwarding::stev;
    const auto entropy = wire::to_wire(ev, stev ? wire::EvFormat::stev : wire::EvFormat::udp);
    e.source_port = entropy.source_port;
    e.flow_label = entropy.flow_label;
    if (fabric->settings().forwarding == Forwarding::srv6) {
      e.encapsulation = wire::Encapsulation::ipv6_in_ipv6;
      e.outer_source = e.source;
      e.outer_destination = fabric->route(from, to, plane, uplink);
    }
    const std::size_t before = wire::build_envelope(p.head, e, 60);
    p.udp = static_cast<std::uint16_t>(before - sizeof(wire::Udp));
    p.inner_ip = static_cast<std::uint16_t>(p.udp - sizeof(wire::Ipv6));
    p.head_length = static_cast<std::uint16_t>(before);
    p.length = static_cast<std::uint32_t>(before + 60);
    p.traffic = TrafficClass::data;
    p.payload.clear();
    std::map<std::string, std::uint64_t> sent;
    for (const Link& l : network.links()) sent[l.name] = l.stats.packets;
    network.send(fabric->host_up(from, plane), id);
    network.run_until(network.now() + 1ms);
    std::vector<std::string> out;
    for (const Link& l : network.links())
      if (l.stats.packets != sent[l.name]) out.push_back(l.name);
    return out;
  }
};

FabricSettings clos(Forwarding forwarding = Forwarding::srv6) {
  FabricSettings s = test::small_clos(10);
  s.forwarding = forwarding;
  return s;
}

TEST_CASE("fabric: every SRv6 path goes over its T1 and no other, between all hosts") {
  Rig rig(clos());
  CHECK(rig.fabric->settings().t0s() == 3);
  for (unsigned from = 0; from < 10; ++from)
    for (unsigned to = 0; to < 10; ++to)
      for (unsigned plane = 0; plane < 2; ++plane)
        for (unsigned u = 0; u < rig.fabric->paths(from, to) && from != to; ++u) {
          std::set<std::string> expected;
          const std::string p = std::to_string(plane);
          const std::string t0 = switch_name(0, plane, from / 4);
          const std::string last = switch_name(0, plane, to / 4);
          const std::string t1 = switch_name(1, plane, u);
          expected.insert("h" + std::to_string(from) + ".p" + p + ">" + t0);
          if (from / 4 != to / 4) {
            expected.insert(t0 + ">" + t1);
            expected.insert(t1 + ">" + last);
          }
          expected.insert(last + ">h" + std::to_string(to) + ".p" + p);
          const auto links = rig.send(from, to, plane, u);
          REQUIRE(std::set<std::string>(links.begin(), links.end()) == expected);
        }
  CHECK(rig.fabric->unroutable() == 0);
}

TEST_CASE("fabric: the uSIDs of the path are shifted out one by one, the last stays") {
  Rig rig(clos());
  (void)rig.send(1, 9, 1, 2);
  const Packet& p = rig.hosts[9]->last;
  const auto route = rig.fabric->route(1, 9, 1, 2);
  CHECK(p.outer().destination == path::shift(path::shift(route)));
  CHECK(path::usid_at(p.outer().destination, 0) == path::usid_at(route, 2));
  CHECK(path::usid_at(p.outer().destination, 1) == 0);
  CHECK(p.outer().hop_limit == wire::kDefaultHopLimit - 3);
  CHECK(p.inner().hop_limit == wire::kDefaultHopLimit);
  CHECK(p.inner().destination == Fabric::address(9, 1));
}

TEST_CASE("fabric: a local uSID names a port of the node that it comes to, without a look-up") {
  Rig rig(clos());
  // T0 0 by its own uSID, out of its port to T1 1; there out of the port to T0 2, host 9 in the
  // end.
  const auto route = rig.fabric->route(0, 9, 0, 0);
  const path::Usid t0 = path::usid_at(route, 0),
                   t1 = path::usid_at(rig.fabric->route(0, 9, 0, 1), 1);
  const path::Usid to_t1 = Switch::kFirstLocal + 4 + 1;  // its four hosts' ports come first
  const path::Usid to_t0 = Switch::kFirstLocal + 2;
  const path::Usid usids[] = {t0, to_t1, t1, to_t0, path::usid_at(route, 2)};
  const auto send = [&](std::span<const path::Usid> list) {
    const PacketId id = rig.network.packets().take();
    Packet& p = rig.network.packets()[id];
    wire::Envelope e;
    e.source = Fabric::address(0, 0);
    e.destination = Fabric::address(9, 0);
    e.encapsulation = wire::Encapsulation::ipv6_in_ipv6;
    e.outer_destination = path::make_carrier(path::usid_block(route), list);
    (void)wire::build_envelope(p.head, e, 60);
    p.length = 188;
    p.traffic = TrafficClass::data;
    rig.network.send(rig.fabric->host_up(0, 0), id);
    rig.network.run_until(rig.network.now() + 1ms);
  };
  send(usids);
  CHECK(rig.hosts[9]->came_by.size() == 1);
  CHECK(rig.network[rig.fabric->fabric_up(0, 0, 1)].stats.packets == 1);
  CHECK(rig.network[rig.fabric->fabric_down(0, 2, 1)].stats.packets == 1);
  CHECK(path::usid_at(rig.hosts[9]->last.outer().destination, 1) == 0);
  const path::Usid nowhere[] = {t0, 0xFFFF};
  send(nowhere);
  CHECK(rig.fabric->unroutable() == 1);
}

TEST_CASE("fabric: what has no route is dropped and counted") {
  Rig rig(clos());
  const auto ask = [&](wire::IpAddress destination) {
    const PacketId id = rig.network.packets().take();
    Packet& p = rig.network.packets()[id];
    wire::Envelope e;
    e.source = e.destination = Fabric::address(1, 0);
    e.encapsulation = wire::Encapsulation::ipv6_in_ipv6;
    e.outer_destination = destination;
    (void)wire::build_envelope(p.head, e, 60);
    p.length = 188;
    rig.network.send(rig.fabric->host_up(0, 0), id);
    rig.network.run_until(rig.network.now() + 1ms);
  };
  wire::IpAddress odd = rig.fabric->route(0, 9, 0, 0);
  odd[7] = 9;  // no such T1
  ask(odd);
  ask(rig.fabric->route(0, 9, 1, 0));  // of the other plane
  odd = rig.fabric->route(0, 9, 0, 0);
  odd[0] = 0xFB;  // another block, and no such host
  ask(odd);
  CHECK(rig.fabric->unroutable() == 3);
  CHECK(rig.network.packets().in_use() == 0);
}

TEST_CASE("fabric: a structured EV names the uplink, a hashed one spreads and avoids dead links") {
  Rig stev(clos(Forwarding::stev));
  for (unsigned u = 0; u < 3; ++u) {
    const auto links = stev.send(0, 9, 0, u);
    REQUIRE(links.size() == 4);
    CHECK(std::find(links.begin(), links.end(), "p0t0-0>" + switch_name(1, 0, u)) != links.end());
  }
  FabricSettings s = clos(Forwarding::udp);
  s.t1s = 4;
  Rig udp(s);
  const auto used = [&] {
    std::map<std::string, int> n;
    for (unsigned ev = 0; ev < 64; ++ev)
      for (const auto& link : udp.send(0, 9, 0, ev))
        if (link.starts_with("p0t0-0>p0t1-")) ++n[link];
    return n;
  };
  auto n = used();
  CHECK(n.size() == 4);
  for (const auto& [link, count] : n) CHECK(count > 5);
  for (const LinkId id : udp.fabric->find("p0t0-0-p0t1-2")) udp.network.set_link_up(id, false);
  n = used();
  CHECK(n.size() == 3);
  CHECK(n.find("p0t0-0>p0t1-2") == n.end());
}

TEST_CASE("fabric: single switch and dumbbell") {
  FabricSettings s = clos();
  s.topology = Topology::single_switch;
  Rig one(s);
  CHECK(one.send(0, 9, 1, 0).size() == 2);
  s.topology = Topology::dumbbell;
  for (const Forwarding f : {Forwarding::srv6, Forwarding::stev, Forwarding::udp}) {
    s.forwarding = f;
    Rig two(s);
    CHECK(two.send(0, 4, 1, 0).size() == 2);
    CHECK(two.send(0, 9, 1, 0) ==
          std::vector<std::string>{"h0.p1>p1t0-0", "p1t0-1>h9.p1", "p1t0-0>p1t0-1"});
    CHECK(two.send(9, 0, 0, 0).size() == 3);
  }
}

TEST_CASE("fabric: names of parts") {
  Rig rig(clos());
  const Fabric& f = *rig.fabric;
  CHECK(f.find("h3.p1").size() == 2);
  CHECK(f.find("h3").size() == 4);
  CHECK(f.find("p1t0-2").size() == 2 * (2 + 3));  // the last T0 has two hosts
  CHECK(f.find("p0t1-1").size() == 2 * 3);
  CHECK(f.find("p0").size() == 2 * (10 + 9));
  CHECK(f.find("p0t0-1-p0t1-2").size() == 2);
  CHECK(f.find("p0t1-2>p0t0-1") == std::vector<LinkId>{f.fabric_down(0, 1, 2)});
  CHECK(f.find("h3.p1>p1t0-0") == std::vector<LinkId>{f.host_up(3, 1)});
  CHECK(f.host_of("h9") == 9);
  CHECK(f.host_of("h10") == -1);
  CHECK(f.host_of("p0t0-0") == -1);
  // As mrc_probe prints a cable; a host has one port in the plane of a switch.
  CHECK(f.find("h3 - p1t0-0") == f.find("h3.p1-p1t0-0"));
  CHECK(f.find("h3>p1t0-0") == f.find("h3.p1>p1t0-0"));
  for (const char* bad :
       {"", "h", "h10", "h3.p2", "t0", "t0.", "p0t0-3", "p0t1-0-p0t1-1", "p2", "x", "h3>h4",
        "h3-p1t0-1", "p0t0-0-", "p0t0-0.0", "p0t2-0", "p0t0.0", "t0.0.3", "h99999999999"}) {
    INFO(bad);
    CHECK_THROWS_WITH_AS((void)f.find(bad), doctest::Contains("nothing is called"), Error);
  }
}

TEST_CASE("fabric: switches are called as everywhere else; older names are read") {
  Rig rig(clos());
  const Fabric& f = *rig.fabric;
  for (const auto& [older, name] :
       {std::pair("t0.1.2", "p1t0-2"), std::pair("t1.0.1", "p0t1-1"),
        std::pair("t0.0.1-t1.0.2", "p0t0-1-p0t1-2"), std::pair("t1.0.2>t0.0.1", "p0t1-2>p0t0-1"),
        std::pair("h3.p1>t0.1.0", "h3.p1>p1t0-0"), std::pair("h3 - t0.1.0", "h3.p1-p1t0-0")}) {
    CHECK(canonical_name(older) == name);
    CHECK(canonical_name(name) == name);
    CHECK(f.find(older) == f.find(name));
  }
  for (const char* other : {"deepest", "", "t0.1", "p1t0-2-"})
    CHECK(canonical_name(other) == other);
  for (const Link& link : rig.network.links()) CHECK(canonical_name(link.name) == link.name);
}

TEST_CASE("fabric: settings out of range are named") {
  FabricSettings s;
  s.planes = 17;
  CHECK_THROWS_WITH_AS(s.check(), doctest::Contains("planes is 17"), Error);
  s = {};
  s.hosts = 0;
  CHECK_THROWS_AS(s.check(), Error);
  s = {};
  s.host_gbps = 0;
  CHECK_THROWS_WITH_AS(s.check(), doctest::Contains("host_gbps"), Error);
  s = {};
  s.hosts = 2047;
  s.hosts_per_t0 = 1;
  CHECK_NOTHROW(s.check());
}

}  // namespace fabric_test
