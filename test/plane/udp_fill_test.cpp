// SPDX-License-Identifier: Apache-2.0
// How full the receive buffer of a UDP port is.
#include <doctest/doctest.h>

#include "mrc/plane/udp/udp_port.hpp"
#include "udp_rig.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

TEST_CASE("UDP: a port knows how full its receive buffer is, when it did not take all there was") {
  for (const bool v4 : {true, false}) {
    const auto local = loopback(v4);
    if (!local) continue;
    UdpPortOptions options = options_for(*local);
    options.gso = options.gro = Offload::off;
    options.receive_buffer = 128 << 10;
    options.receive_slots = 4;
    Rig rig(options, options);
    CHECK(rig.receiver.receive_fill() == 0);
    for (std::uint32_t i = 0; i < 64; ++i) rig.add(i, 1024, 0);
    CHECK(rig.send() == 64);
    RxBurst rx;
    rig.receiver.receive(rig.now(), rx);  // four of them
    REQUIRE(rx.packets().size() == 4);
    CHECK(rig.receiver.receive_fill() > 32);
    CHECK(rig.receiver.receive_fill() <= 128);
    rig.receive();  // all
    CHECK(rig.receiver.receive_fill() == 0);
  }
}
