// SPDX-License-Identifier: Apache-2.0
// Resolution where nobody answers, where others than the peer answer, and beside floods.
#include <doctest/doctest.h>

#include "resolution_net.hpp"

using namespace mrc;
using namespace mrc::test;
using Net = ResolutionNet;

namespace resolution_limits_test {

/// A hello of device 2's queue pair `asking` for device 1's `asked`, as it arrives there.
ResolutionMessage hello_of(Net& net, Qpn asking, Qpn asked) {
  ResolutionMessage hello;
  net[2].connect(asking, net[1], asked);
  REQUIRE(net[2].resolution.poll_message(hello));
  net[2].resolution.stop(asking);
  hello.set_sender(net[2].address);
  hello.source = port::source_tag(net[2].address.ip);
  return hello;
}

TEST_CASE("resolution: while no plane of this side is up silence says nothing") {
  Net net;
  net.deaf = {1};
  net[0].connect(kA, net[1], kB);
  net[0].own[value(kA)].can_ask = false;
  net.run(8s);
  CHECK(net[0].silent.empty());
  net[0].own[value(kA)].can_ask = true;
  net.run(1900ms);
  CHECK(net[0].silent.empty());
  net.run(300ms);
  CHECK(net[0].silent.size() == 1);
}

TEST_CASE("resolution: what only an OpenMRC device can do waits for the answer, to a limit") {
  Net net;
  net.deaf = {1};
  net[0].content = false;
  net[0].connect(kA, net[1], kB);
  net.run(20s);  // nothing is posted yet
  CHECK(net[0].refused.empty());
  net[0].own[value(kA)].waited_for = true;
  net.run(8s);
  CHECK(net[0].refused.empty());
  SUBCASE("an answer comes in time") {
    net.deaf.clear();
    net[1].connect(kB, net[0], kA);
    net.run(10ms);
    CHECK(net[0].resolved.count(value(kA)) == 1);
    net.run(20s);
    CHECK(net[0].refused.empty());
  }
  SUBCASE("none comes") {
    net.run(4s);
    CHECK(net[0].refused[value(kA)] == "unanswered");
  }
  CHECK(net[0].silent.empty());
}

TEST_CASE("resolution: another address is the peer's only if the peer says that the GID is its") {
  Net net(1, 3);
  // What has the address of device 2 is asked as well; it answers for itself.
  net[0].likely = {net[2].address.ip};
  net[0].connect(kA, net[1], kB);
  net.deaf = {1};
  net[2].connect(kB, net[0], kA);
  SUBCASE("it is another host") {
    net.run(1s);
    CHECK(net[0].resolved.empty());
  }
  SUBCASE("it is the peer's other plane") {
    net[2].own[value(kB)].info.planes = {net[1].address, net[2].address};
    net.run(1s);
    CHECK(net[0].resolved.count(value(kA)) == 1);
    CHECK(net[0].answered_by == net[2].address.ip);
  }
}

TEST_CASE("resolution: a question alone, and its answer") {
  Net net(1, 3);
  net[1].connect(kB, net[0], kA);
  net.deaf = {0};
  const std::uint64_t number = net[2].resolution.new_nonce();
  net[2].resolution.ask(0, net[1].address, number, kB, kA);
  net.run(1ms);
  REQUIRE(net[2].heard.size() == 1);
  CHECK(net[2].heard[number] == net[1].address);
  CHECK(net[2].resolution.pending() == 0);
}

TEST_CASE("resolution: answers are limited") {
  Net net(1, 3);
  net[1].connect(kB, net[0], kA);
  ResolutionMessage hello = hello_of(net, kA, kB);
  unsigned answers = 0;
  ResolutionMessage out;
  while (net[1].resolution.poll_message(out)) {
  }
  for (int i = 0; i < 60'000; ++i) {
    net.now += 50us;  // in 3 s, of one address
    net[1].resolution.on_message(net.now, hello);
    while (net[1].resolution.poll_message(out)) ++answers;
  }
  CHECK(answers >= 3 * AnswerLimits::kPerShare);
  CHECK(answers <= 3 * AnswerLimits::kPerShare + AnswerLimits::kBurst);
  CHECK(net[1].resolution.refused() == 60'000 - answers);
  // And do not wait for ever if nobody takes them.
  net.now += 2s;
  for (int i = 0; i < 10'000; ++i) net[1].resolution.on_message(net.now, hello);
  answers = 0;
  while (net[1].resolution.poll_message(out)) ++answers;
  CHECK(answers <= 256);
}

TEST_CASE("resolution: after a pause a tenth of a second's questions are answered at once") {
  Net net(1, 3);
  const ResolutionMessage hello = hello_of(net, kA, kB);
  net[1].connect(kB, net[2], kA);  // which waits for it
  ResolutionMessage out;
  while (net[1].resolution.poll_message(out)) {
  }
  net.now += 1s;
  unsigned answers = 0;
  for (int i = 0; i < 5'000; ++i) {
    net[1].resolution.on_message(net.now, hello);
    while (net[1].resolution.poll_message(out)) ++answers;
  }
  CHECK(answers == AnswerLimits::kWantedBurst);
}

TEST_CASE("resolution: 40,000 hello per second leave the answers to others alone") {
  Net net(9, 3);
  const auto flood = [&](Qpn asked, bool from_anywhere) {
    ResolutionMessage hello = hello_of(net, kA, asked);
    const Time end = net.now + 1s;
    while (net.now < end) {
      for (int i = 0; i < 8; ++i) {
        if (from_anywhere) {
          const auto r = static_cast<std::uint8_t>(net.random.next() >> 40);
          const auto q = static_cast<std::uint8_t>(net.random.next() >> 40);
          hello.set_sender({port::make_v4(172, 16, r, q), 4791});
          hello.source = port::source_tag(port::make_v4(172, 16, r, q));
        }
        net[1].resolution.on_message(net.now, hello);
      }
      net.run(200us);
    }
  };
  SUBCASE("for queue pairs that do not exist") {
    flood(Qpn{0x010777}, true);
    CHECK(net[1].resolution.answers() <= AnswerLimits::kOthers + AnswerLimits::kBurst);
  }
  SUBCASE("for one that exists, of one address") {
    net[1].connect(Qpn{0x010777}, net[0], Qpn{0x000777});
    flood(Qpn{0x010777}, false);
    CHECK(net[1].resolution.answers() <= AnswerLimits::kPerShare + AnswerLimits::kBurst);
  }
  SUBCASE("for one that exists, of all addresses") {
    net[1].connect(Qpn{0x010777}, net[0], Qpn{0x000777});
    flood(Qpn{0x010777}, true);
    CHECK(net[1].resolution.answers() <= AnswerLimits::kKnown + AnswerLimits::kBurst);
  }
  CHECK(net[1].resolution.refused() > 10'000);
  // At the end of it all a pair connects as on a quiet network, whatever is left of the budgets.
  net[1].connect(kB, net[0], kA);
  net[0].connect(kA, net[1], kB);
  net.run(1ms);
  CHECK(net[0].resolved.count(value(kA)) == 1);
  CHECK(net[1].resolved.count(value(kB)) == 1);
}

TEST_CASE("resolution: silence counts later while questions here are drowned") {
  Net net(1, 3);
  net.deaf = {0};
  net[1].connect(kB, net[0], kA);
  net[1].connect(Qpn{0x010777}, net[0], Qpn{0x000777});
  const ResolutionMessage hello = hello_of(net, kA, kB);
  for (int i = 0; i < 400; ++i) net[1].resolution.on_message(net.now, hello);
  CHECK(net[1].resolution.refused() > 0);
  net.run(9s);
  CHECK(net[1].silent.empty());
  net.run(2s);
  CHECK(net[1].silent.size() == 2);
}

}  // namespace resolution_limits_test
