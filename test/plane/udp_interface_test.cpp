// SPDX-License-Identifier: Apache-2.0
// The interface of a UDP port is renamed, or deleted and made again, while the port is open.
#include <doctest/doctest.h>
#include <net/if.h>

#include <string>

#include "plane/udp_rig.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using mrc::test::in_new_network;
using mrc::test::shell;

namespace udp_interface_test {

void make(const std::string& name) {
  shell("ip link add " + name + " mtu 9000 type veth peer name other mtu 9000; ip link set other " +
        "up; ip link set " + name + " up; ip addr add 10.9.0.1/24 dev " + name +
        "; ip addr add fd09::1/64 dev " + name + " nodad; ip addr add fe80::9/64 dev " + name +
        " nodad; " + mrc::test::await_carrier(name));
}

/// What the port finds at its next look at the link.
bool up(UdpPort& port, Time& now) {
  RxBurst rx;
  now += UdpPort::kSearchInterval;
  port.receive(now, rx);
  return port.link_up();
}

/// The interface that its receiving socket takes packets of; 0: of all.
unsigned tied_to(const UdpPort& port) {
  int index = 0;
  socklen_t size = sizeof index;
  constexpr int kBindToIndex = 62;  // SO_BINDTOIFINDEX
  REQUIRE(getsockopt(port.poll_fd(), SOL_SOCKET, kBindToIndex, &index, &size) == 0);
  return static_cast<unsigned>(index);
}

TEST_CASE("UDP port: its interface is renamed, and deleted and made again under another name") {
  in_new_network([] {
    for (const char* plane : {"10.9.0.1", "fd09::1", "first", "fe80::9%first"}) {
      CAPTURE(plane);
      shell("ip link set lo up");
      make("first");
      const LocalAddress local = parse_local_address(plane);
      const bool tied = !local.interface.empty();
      UdpPort port = open_port(options_for(local, 2));
      const PeerAddress peer{is_v4(port.address().ip)           ? parse_ip("10.9.0.2")
                             : is_link_local(port.address().ip) ? parse_ip("fe80::2")
                                                                : parse_ip("fd09::2"),
                             4791};
      (void)port.add_peer(PeerId{5}, peer);
      Time now = monotonic_now();
      CHECK(up(port, now));
      shell(
          "echo 1 > /proc/sys/net/ipv6/conf/first/keep_addr_on_down; ip link set first down; "
          "ip link set first name second; ip link set second up; " +
          mrc::test::await_carrier("second"));
      // `now` is the port's time: it is to be back within 3 s.
      Time changed = now;
      CHECK(mrc::test::eventually([&] { return up(port, now); }));
      CHECK(now - changed <= std::chrono::seconds(3));
      CHECK(port.interface().name == "second");
      CHECK(port.zone() == (is_link_local(port.address().ip) ? "second" : ""));
      shell("ip link set other down");
      CHECK(mrc::test::eventually([&] { return !up(port, now); }));
      shell("ip link del second");
      CHECK_FALSE(up(port, now));
      make("third");
      changed = now;
      CHECK(mrc::test::eventually([&] { return up(port, now); }));
      CHECK(now - changed <= std::chrono::seconds(3));
      CHECK(port.interface().name == "third");
      CHECK(tied_to(port) == (tied ? if_nametoindex("third") : 0));
      CHECK(port.capabilities().max_packet == (is_v4(port.address().ip) ? 9000u - 28 : 9000u - 48));
      shell("ip link del third");
    }
  });
}

}  // namespace udp_interface_test
