// SPDX-License-Identifier: Apache-2.0
// How full the receive buffer of a UDP port is.
#include <doctest/doctest.h>

#include "mrc/plane/udp_port.hpp"
#include "udp_rig.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using namespace std::chrono_literals;

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

TEST_CASE("UDP: while packets come one by one, the first of several is read alone") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  Time now = Rig::now();
  const auto read = [&](Duration later = 1us) {
    RxBurst rx;
    now += later;
    rig.receiver.receive(now, rx);
    return rx.packets().size();
  };
  const auto send = [&](std::uint16_t datagrams) {
    rig.burst.clear();
    for (std::uint16_t path = 0; path < datagrams; ++path) rig.add(path, 64, path);
    return rig.send();
  };
  CHECK(send(1) == 1);
  CHECK(read() == 1);
  CHECK(read() == 0);
  CHECK(send(4) == 4);
  CHECK(read(1ms) == 4);  // nobody has read for a while
  CHECK(send(1) == 1);
  CHECK(read() == 1);
  CHECK(read() == 0);
  CHECK(send(4) == 4);
  CHECK(read() == 1);
  CHECK(read() == 3);
  CHECK(read() == 0);
  CHECK(send(2) == 2);
  CHECK(read() == 2);  // several came together last time
}
