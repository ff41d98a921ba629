// SPDX-License-Identifier: Apache-2.0
// The MTU of a UDP port's interface changes while the port is open.
#include <doctest/doctest.h>

#include "plane/udp_rig.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using mrc::test::in_new_network;
using mrc::test::shell;

TEST_CASE("UDP port: packets above the interface's MTU are refused once, and then not tried") {
  in_new_network([] {
    shell("ip link set lo up");
    for (const bool v4 : {true, false}) {
      for (const bool gso : {true, false}) {
        CAPTURE(v4);
        CAPTURE(gso);
        const auto local = loopback(v4);
        if (!local) continue;
        shell("ip link set lo mtu 9000");
        UdpPortOptions options = options_for(*local);
        options.gso = gso ? Offload::automatic : Offload::off;
        Rig rig(options, options);
        const std::uint32_t room = rig.sender.capabilities().max_packet;
        CHECK(room == (v4 ? 9000u - 28 : 9000u - 48));
        const auto burst = [&](std::size_t payload) {  // eight packets; how many were lost
          rig.burst.clear();
          rig.payloads.clear();
          const std::uint64_t errors = rig.sender.stats().tx_errors;
          for (std::uint32_t i = 0; i < 8; ++i) rig.add(i, payload, 0);
          CHECK(rig.send() == 8);
          return rig.sender.stats().tx_errors - errors;
        };
        CHECK(burst(4096) == 0);
        CHECK(rig.sender.capabilities().segmentation == gso);
        shell("ip link set lo mtu 1500");
        CHECK(burst(4096) == 8);  // all count as taken: to the protocol they are lost
        CHECK(rig.sender.capabilities().max_packet == (v4 ? 1500u - 28 : 1500u - 48));
        CHECK(rig.sender.capabilities().segmentation == gso);
        const std::uint64_t calls = rig.sender.stats().tx_calls;
        CHECK(burst(4096) == 8);
        CHECK(rig.sender.stats().tx_calls == calls);
        CHECK(burst(1024) == 0);
        shell("ip link set lo mtu 9000");
        const Time later = rig.now() + 2 * UdpPort::kLinkCheckUp;
        RxBurst rx;
        rig.sender.receive(later, rx);
        CHECK(rig.sender.capabilities().max_packet == room);
        CHECK(burst(4096) == 0);
      }
    }
  });
}
