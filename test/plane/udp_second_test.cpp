// SPDX-License-Identifier: Apache-2.0
// A UDP port that receives on both standard ports: a round may read twice, and what it returns must
// stay as it was, with injected faults, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "mrc/wire/transport.hpp"
#include "plane/udp_rig.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using namespace std::chrono_literals;

namespace udp_second_test {

constexpr std::size_t kSecondPayload = 500;

/// A port that receives on both, and one that sends to either.
struct SecondRig : Rig {
  static SecondRig make() {
    UdpPortOptions options = options_for({make_v4(127, 0, 0, 1), ""});
    UdpPort sender = open_port(options);
    options.base_port = wire::kUdpPort;
    SlotClaim claim = claim_slot(std::array{options.local});
    return {std::move(sender),
            UdpPort(options, std::move(claim.sockets[0]), std::move(claim.second_sockets[0]))};
  }
  SecondRig(UdpPort a, UdpPort b) : Rig(std::move(a), std::move(b)) {}

  /// Sends `count` packets to one of the two ports.
  void send_to(bool second, std::uint32_t first_number, std::uint32_t count) {
    PeerAddress to = receiver.address();
    if (second) to.udp_port = wire::kUdpPortAlternative;
    (void)sender.add_peer(PeerId{5}, to);
    for (std::uint32_t n = 0; n < count; ++n) add(first_number + n, kSecondPayload, 0);
    CHECK(send() == count);
  }
  /// One round. Everything that it returns is as it was sent when the round is over.
  void round(Time at) {
    rx.clear();
    receiver.receive(at, rx);
    for (const wire::RxPacket& p : rx.packets()) {
      CHECK(p.check == 0);
      const auto n = wire::view_as<wire::Bth>(p.bytes).psn().value();
      REQUIRE(p.bytes.size() == sizeof(wire::Bth) + kSecondPayload);
      CHECK(std::ranges::equal(p.bytes.subspan(sizeof(wire::Bth)), payload_of(n, kSecondPayload)));
      CHECK(numbers.insert(n).second);
    }
  }
  std::set<std::uint32_t> numbers;
};

TEST_CASE("UDP port: what comes to the second standard port is received as well [C-1]") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link set lo up");
    SecondRig rig = SecondRig::make();
    CHECK(rig.receiver.address().udp_port == wire::kUdpPort);
    REQUIRE(rig.receiver.link_fd() >= 0);

    // To the second only; a thread that was asleep finds it at once.
    rig.send_to(true, 0, 40);
    CHECK(readable(rig.receiver.link_fd()));
    CHECK_FALSE(readable(rig.receiver.poll_fd()));
    CHECK(rig.receiver.arm());
    rig.round(monotonic_now());
    CHECK_FALSE(rig.numbers.empty());

    // To both, without a sleep: in virtual time, so that pauses end when they should.
    Time now = monotonic_now() + 1s;
    for (std::uint32_t n = 40; n < 120; ++n) rig.send_to(n % 2 == 1, n, 1);
    for (int i = 0; i < 200; ++i) rig.round(now += 10us);
    CHECK(rig.numbers.size() == 120);
    CHECK(rig.receiver.stats().rx_packets == 120);

    // While nothing comes, it is looked at once in a while, not in each call.
    rig.round(now += 1s);
    rig.send_to(true, 200, 1);
    rig.round(now + UdpPort::kSecondPause / 2);
    CHECK(rig.rx.empty());
    rig.round(now + UdpPort::kSecondPause);
    CHECK(rig.rx.packets().size() == 1);
  });
}

TEST_CASE("UDP port: the second read of a round leaves what faults delivered in it alone") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link set lo up");
    SecondRig rig = SecondRig::make();
    faults_of(rig.receiver).set({.delay = 1ms});
    Time now = monotonic_now() + 1s;
    std::uint32_t number = 0;
    for (int i = 0; i < 8; ++i) {  // either socket is read first, in turns
      CAPTURE(i);
      rig.send_to(false, number, 10);
      rig.round(now);  // held back
      if (i % 3 == 1) rig.round(now);
      rig.send_to(true, number + 10, 10);
      now += 1ms;
      rig.round(now);  // the former are due while the latter are read
      CHECK(rig.numbers.size() >= number + 10);
      now += 1ms;
      rig.round(now);
      rig.round(now);
      now += 1ms;
      rig.round(now);
      number += 20;
      CHECK(rig.numbers.size() == number);
    }
    CHECK(faults_of(rig.receiver).stats().overflow == 0);
    CHECK(rig.receiver.stats().rx_packets == number);
  });
}

TEST_CASE("UDP port: reordered packets of both standard ports arrive whole, each once") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link set lo up");
    SecondRig rig = SecondRig::make();
    faults_of(rig.receiver).set({.reorder = 0.5});
    Time now = monotonic_now() + 1s;
    for (std::uint32_t n = 0; n < 400; n += 4) {
      rig.send_to(n % 8 == 0, n, 4);
      rig.round(now);
      now += 300us;
    }
    for (int i = 0; i < 10; ++i, now += 1ms) rig.round(now);
    CHECK(rig.numbers.size() == 400);
    CHECK(faults_of(rig.receiver).stats().reordered > 100);
  });
}

TEST_CASE("UDP port: after a pause a round takes all there is, whichever socket it reads first") {
  mrc::test::in_new_network([] {
    mrc::test::shell("ip link set lo up");
    SecondRig rig = SecondRig::make();
    Time now = monotonic_now() + 1s;
    std::uint32_t number = 0;
    for (int i = 0; i < 6; ++i) {
      CAPTURE(i);
      rig.send_to(false, number++, 1);  // they come one by one
      for (int n = 0; n < 3; ++n) rig.round(now += 1us);
      rig.burst.clear();
      for (std::uint16_t path = 0; path < 4; ++path) rig.add(number++, kSecondPayload, path);
      CHECK(rig.send() == 4);
      rig.round(now += 10ms);
      CHECK(rig.numbers.size() == number);
    }
  });
}

}  // namespace udp_second_test
