// SPDX-License-Identifier: Apache-2.0
// By which interface the packets of UDP ports leave, where several could carry them.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/plane/udp_kind.hpp"
#include "plane/udp_rig.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using mrc::test::in_new_network;
using mrc::test::shell;

namespace udp_way_test {

/// Two interfaces, a0 and a1, with addresses of one subnet; the peer's, 10.9.0.9 and fd09::9, may
/// be behind either.
void make_links() {
  shell("ip link set lo up");
  for (const std::string n : {"0", "1"}) {
    const std::string a = "a" + n, b = "b" + n;
    shell("ip link add " + a + " mtu 9000 type veth peer name " + b + " mtu 9000; ip link set " +
          b + " up; ip link set " + a + " up; ip addr add 10.9.0." + (n == "0" ? "1" : "2") +
          "/24 dev " + a + "; ip addr add fd09::" + (n == "0" ? "1" : "2") + "/64 dev " + a +
          " nodad; " + mrc::test::await_carrier(a + " " + b));
  }
  shell(
      "for i in a0 a1; do for to in 10.9.0.9 fd09::9; do "
      "ip neigh replace $to lladdr 02:00:00:00:00:09 dev $i; done; done; " +
      mrc::test::await_own_route("fd09::1") + "; " + mrc::test::await_own_route("fd09::2"));
}

/// Bytes that have left by an interface.
std::uint64_t sent_by(const std::string& name) {
  std::ifstream file("/proc/thread-self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, colon).find(name) == std::string::npos)
      continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::vector<std::uint64_t> values;
    for (std::uint64_t value = 0; numbers >> value;) values.push_back(value);
    return values.at(8);
  }
  return 0;
}

/// A plane, and who it sends to.
struct Plane {
  Plane(const std::string& own, const std::string& to)
      : rig(open_port(options_for(parse_local_address(own), 2)),
            open_port(options_for(
                parse_local_address(to.find(':') == to.npos ? "127.0.0.1" : "::1"), 2))) {
    (void)rig.sender.add_peer(PeerId{5}, PeerAddress{parse_ip(to), 4791});
  }
  /// Where packets have left: "a0", "a1", "lo", or "" if they have not.
  std::string leaves_by() {
    constexpr std::uint32_t kPackets = 32;
    constexpr std::size_t kBytes = 1024;
    const std::vector<std::string> names = {"a0", "a1", "lo"};
    std::vector<std::uint64_t> before;
    for (const std::string& name : names) before.push_back(sent_by(name));
    for (std::uint32_t i = 0; i < kPackets; ++i) rig.add(i, kBytes, i % 2);
    (void)rig.send();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (sent_by(names[i]) - before[i] >= kPackets * kBytes) return names[i];
    return "";
  }
  /// Has noticed what was changed.
  void look() {
    RxBurst rx;
    now = std::max(now, Rig::now()) + UdpPort::kSearchInterval;
    rig.sender.receive(now, rx);
  }

  Rig rig;
  Time now{};
};

TEST_CASE("UDP port: packets leave by the interface that has the plane's address") {
  in_new_network([] {
    make_links();
    for (const bool v4 : {true, false}) {
      CAPTURE(v4);
      const std::string peer = v4 ? "10.9.0.9" : "fd09::9", net = v4 ? "10.9.0.0/24" : "fd09::/64";
      const std::string first = v4 ? "10.9.0.1" : "fd09::1", second = v4 ? "10.9.0.2" : "fd09::2";
      const std::string route = v4 ? "ip route " : "ip -6 route ";
      Plane zero(first, peer), one(second, peer);
      CHECK(zero.leaves_by() == "a0");
      CHECK(one.leaves_by() == "a1");
      // Another route to the peer, of a smaller metric.
      for (const std::string worse : {"a0", "a1"}) {
        CAPTURE(worse);
        shell(route + "add " + net + " metric 9 dev " + (worse == "a0" ? "a1" : "a0"));
        zero.look(), one.look();
        CHECK(zero.leaves_by() == "a0");
        CHECK(one.leaves_by() == "a1");
        CHECK(Plane(first, peer).leaves_by() == "a0");
        CHECK(Plane(second, peer).leaves_by() == "a1");
        shell(route + "del " + net + " metric 9");
      }
      // A peer that only one interface leads to.
      const std::string far = v4 ? "10.8.0.9" : "fd08::9";
      shell(route + "add " + far + " via " + peer + " dev a0");
      CHECK(Plane(second, far).leaves_by() == "a0");
      shell(route + "del " + far);
      CHECK(Plane(second, far).leaves_by() == "");
      // Planes on one host.
      CHECK(Plane(second, first).leaves_by() == "lo");
      CHECK(Plane(first, first).leaves_by() == "lo");
    }
  });
}

TEST_CASE("UDP port: packets follow routes that change, and an interface that is made again") {
  in_new_network([] {
    make_links();
    Plane plane("10.9.0.2", "10.9.0.9");
    CHECK(plane.leaves_by() == "a1");
    shell("ip route del 10.9.0.0/24 dev a1");
    plane.look();
    CHECK(plane.leaves_by() == "a0");
    shell("ip route add 10.9.0.0/24 dev a1 src 10.9.0.2 metric 50");
    plane.look();
    CHECK(plane.leaves_by() == "a1");
    shell("ip link del a1");
    plane.look();
    CHECK(plane.leaves_by() == "");
    CHECK_FALSE(plane.rig.sender.link_up());
    shell(
        "ip link add a1 type veth peer name b1; ip link set b1 up; ip link set a1 up; ip addr add "
        "10.9.0.2/24 dev a1; ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev a1; " +
        mrc::test::await_carrier("a1"));
    CHECK(mrc::test::eventually([&] {
      plane.look();
      return plane.rig.sender.link_up();
    }));
    plane.look();
    CHECK(plane.leaves_by() == "a1");
  });
}

TEST_CASE("UDP port: answers to strangers leave by the interface that has the plane's address") {
  in_new_network([] {
    make_links();
    Plane plane("10.9.0.2", "10.9.0.9");
    for (int i = 0; i < 100; ++i) plane.look();  // and not again for 25 s
    const auto ask = [&](const std::string& from) {
      UdpRoute route(PeerAddress{parse_ip(from), 4791});
      route.passing = true;
      (void)plane.rig.sender.add_peer(PeerId{5}, route);
    };
    ask("10.9.0.9");
    CHECK(plane.leaves_by() == "a1");
    shell("ip route del 10.9.0.0/24 dev a1");
    plane.look();
    ask("10.9.0.9");
    CHECK(plane.leaves_by() == "a0");
    shell("ip route add 10.9.0.0/24 dev a1 src 10.9.0.2 metric 50");
    plane.look();
    // So many at once that the kernel is asked no more; but what it has said is remembered.
    ask("10.9.0.9");
    for (std::size_t i = 0; i < UdpPort::kAskedPerCheck; ++i)
      ask("10.9.0." + std::to_string(20 + i));
    ask("10.9.0.9");
    CHECK(plane.leaves_by() == "a1");
    shell(
        "ip neigh replace 10.9.0.8 lladdr 02:00:00:00:00:09 dev a0; ip neigh replace 10.9.0.8 "
        "lladdr 02:00:00:00:00:09 dev a1");
    ask("10.9.0.8");
    CHECK(plane.leaves_by() == "a0");
    plane.look();
    ask("10.9.0.8");
    CHECK(plane.leaves_by() == "a1");
  });
}

TEST_CASE("UDP port: an address on the loopback interface is one of all links") {
  for (const bool v4 : {true, false}) {
    in_new_network([v4] {
      make_links();
      CAPTURE(v4);
      const std::string peer = v4 ? "10.7.0.9" : "fd07::9", own = v4 ? "10.7.0.1" : "fd07::1";
      const std::string route = v4 ? "ip route " : "ip -6 route ",
                        via = v4 ? "10.9.0.9" : "fd09::9";
      const std::uint32_t headers = v4 ? 28 : 48;
      shell("ip addr add " + own + (v4 ? "/32" : "/128") +
            " dev lo; ip link set a0 mtu 9000; "
            "ip link set a1 mtu 4000");
      if (!v4) shell(mrc::test::await_own_route(own));
      const auto room = [](Plane& plane) { return plane.rig.sender.capabilities().max_packet; };
      {
        Plane none(own, peer);  // no route: all links may be meant
        CHECK(room(none) == 4000 - headers);
        none.look();
        CHECK_FALSE(none.rig.sender.link_up());
      }
      shell(route + "add default via " + via + " dev a1");
      CHECK(room(*std::make_unique<Plane>(own, peer)) == 4000 - headers);
      shell(route + "add " + peer + " via " + via + " dev a0 src " + own);
      Plane plane(own, peer);
      CHECK(room(plane) == 9000 - headers);
      CHECK(plane.rig.sender.link_up());
      CHECK_FALSE(plane.rig.sender.on_link());
      CHECK(plane.leaves_by() == "a0");
      shell("ip link set a0 mtu 5000");
      plane.look();
      plane.look();
      CHECK(room(plane) == 5000 - headers);
      shell(route + "del default; ip link set a0 down");
      plane.look();
      plane.look();
      CHECK_FALSE(plane.rig.sender.link_up());
      shell("ip link set a0 up; ip addr replace fd09::1/64 dev a0 nodad; " +
            mrc::test::await_carrier("a0") + "; " + mrc::test::await_own_route("fd09::1"));
      shell("ip neigh replace " + via + " lladdr 02:00:00:00:00:09 dev a0; " + route + "replace " +
            peer + " via " + via + " dev a0 src " + own);
      plane.look();
      plane.look();
      CHECK(plane.rig.sender.link_up());
      CHECK(plane.leaves_by() == "a0");
      CHECK(Plane(own, own).leaves_by() == "lo");
      // A peer behind a narrower link, to which no router leads.
      const std::string near = v4 ? "10.6.0.9" : "fd06::9";
      shell(route + "add " + near + " dev a1 src " + own + "; ip neigh replace " + near +
            " lladdr 02:00:00:00:00:09 dev a1");
      Plane narrow(own, near);
      for (int i = 0; i < 100; ++i) narrow.look();  // and not again for 25 s
      CHECK(room(narrow) == 4000 - headers);
      shell("ip link set a1 mtu 2000");
      CHECK(room(narrow) == 4000 - headers);
      narrow.rig.add(0, 3000, 0);
      (void)narrow.rig.send();  // EMSGSIZE
      CHECK(room(narrow) == 2000 - headers);
      CHECK(narrow.leaves_by() == "a1");
    });
  }
}

/// What is said about links when a device with these planes opens and is told of a peer's.
std::string said_of(const std::vector<std::string>& planes,
                    const std::vector<std::string>& peers = {}) {
  std::string said;
  const mrc::detail::Log log(LogLevel::warn, [&](LogLevel, std::string_view line) {
    if (line.find("share") != line.npos) said += line;
  });
  Config config;
  config.planes = planes;
  config.udp_port = 24791;
  config.paths = 2;
  const auto kind = mrc::detail::make_udp_kind();
  const mrc::detail::OpenedPlanes opened = kind->open(config, std::nullopt, log);
  for (int twice = 0; twice < 2; ++twice)
    for (std::size_t i = 0; i < peers.size(); ++i)
      (void)kind->paths_to(opened, static_cast<mrc::Plane>(i), {parse_ip(peers[i]), 4791}, {});
  return said;
}

TEST_CASE("UDP planes: two that share a link are named when they are opened") {
  in_new_network([] {
    make_links();
    shell(
        "ip addr add 10.8.0.1/24 dev a1; ip addr add 10.7.0.1/32 dev lo; ip addr add 10.7.0.2/32 "
        "dev lo");
    CHECK(said_of({"10.9.0.1", "10.9.0.2"}) == "");
    CHECK(said_of({"fd09::1", "10.8.0.1"}) == "");
    CHECK(said_of({"10.9.0.1", "10.7.0.1"}) == "");
    CHECK(said_of({"127.0.0.1", "127.0.0.2"}) == "");
    CHECK(said_of({"10.9.0.1", "10.9.0.2", "10.8.0.1"}) ==
          "planes 1 and 2 share a link: a1 has both addresses");
    CHECK(said_of({"10.7.0.1", "10.7.0.2"}) ==
          "planes 0 and 1 share all links: their addresses are on lo, so the kernel's routes "
          "decide");
    // What a peer's route says.
    const std::vector<std::string> other{"10.9.0.9", "10.9.0.9"};
    CHECK(said_of({"10.9.0.1", "10.9.0.2"}, other) == "");
    CHECK(said_of({"10.9.0.1", "10.9.0.2"}, {"10.9.0.2", "10.9.0.1"}) == "");
    shell("ip route del 10.9.0.0/24 dev a1");
    CHECK(said_of({"10.9.0.1", "10.9.0.2"}, other) ==
          "planes 0 and 1 share a link: packets from 10.9.0.2 to 10.9.0.9 leave by a0, since no "
          "route leads by a1");
    CHECK(said_of({"10.9.0.1", "a1"}, other) == "");
    CHECK(said_of({"10.9.0.1", "10.8.0.1"}, {"10.8.0.9", "10.9.0.9"}) == "");  // all are asked
    CHECK(said_of({"10.9.0.1", "10.7.0.1"}, other) == "");
  });
}

}  // namespace udp_way_test
