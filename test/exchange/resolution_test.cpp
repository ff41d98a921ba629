// SPDX-License-Identifier: Apache-2.0
// Resolution of queue pairs by GID and QPN, between devices on a network in virtual time.
#include "mrc/resolve/resolution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "resolution_net.hpp"
#include "support/brief.hpp"

using namespace mrc;
using namespace mrc::test;
using Net = ResolutionNet;

TEST_CASE("resolution: both sides learn each other's data, in two round trips") {
  Net net;
  net[0].connect(kA, net[1], kB);
  net[1].connect(kB, net[0], kA);
  net.run(200us);
  REQUIRE(net[0].resolved.count(value(kA)) == 1);
  REQUIRE(net[1].resolved.count(value(kB)) == 1);
  CHECK(net[0].resolved[value(kA)] == net[1].own[value(kB)].info);
  CHECK(net[1].resolved[value(kB)] == net[0].own[value(kA)].info);
  CHECK(net[0].resolution.pending() + net[1].resolution.pending() == 0);
  const auto sent = net.sent;
  net.run(10s);
  CHECK(net.sent == sent);
  CHECK(net[0].resolution.next_deadline() == kNever);
}

TEST_CASE("resolution: a queue pair connected to itself, and two of one device") {
  Net net(1, 1);
  net[0].connect(kA, net[0], kA);
  net[0].connect(Qpn{0x11}, net[0], Qpn{0x12});
  net[0].connect(Qpn{0x12}, net[0], Qpn{0x11});
  net.run(1ms);
  CHECK(net[0].resolved[value(kA)].qpn == kA);
  CHECK(net[0].resolved[0x11].qpn == Qpn{0x12});
  CHECK(net[0].resolved[0x12].qpn == Qpn{0x11});
}

// Only at the GID's own address is an offer sure to be known as the destination's, so that plane
// has every other turn, however many messages lie between two hellos.
TEST_CASE("resolution: hellos to a peer that is not ready count up, and so do offers") {
  Net net;
  std::vector<unsigned> hellos, offers;
  net.tap = [&](unsigned from, unsigned, const ResolutionMessage& m) {
    if (from != 0) return;
    const auto step = static_cast<wire::ResolutionStep>(packet_of(m).header.step);
    (step == wire::ResolutionStep::hello ? hellos : offers).push_back(m.attempt);
  };
  net[0].connect(kA, net[1], kB);
  net.run(30s);
  for (const std::vector<unsigned>* attempts : {&hellos, &offers}) {
    REQUIRE(attempts->size() > 8);
    for (unsigned i = 0; i < attempts->size(); ++i) CHECK((*attempts)[i] == i);
  }
}

TEST_CASE("resolution: loss, duplicates and reordering, whoever begins") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Net net(seed);
    net.loss = net.random.chance(0.5) ? 0.3 : 0;
    net.duplicate = net.random.chance(0.5) ? 0.3 : 0;
    net.jitter = net.random.chance(0.5) ? Duration{net.random.below(5'000'000) + 1} : Duration{};
    const bool first = net.random.chance(0.5);
    const auto connect = [&](bool a) {
      if (a)
        net[0].connect(kA, net[1], kB);
      else
        net[1].connect(kB, net[0], kA);
    };
    connect(first);
    net.run(Duration{net.random.below(200'000'000)});  // the other one is late
    connect(!first);
    net.run(5s);
    CHECK(net[0].resolved[value(kA)] == net[1].own[value(kB)].info);
    CHECK(net[1].resolved[value(kB)] == net[0].own[value(kA)].info);
    CHECK(net[0].refused.empty());
    CHECK(net[0].resolution.pending() + net[1].resolution.pending() == 0);
  }
}

TEST_CASE("resolution: nobody answers: so many tries, then silence; undone when the peer asks") {
  Net net;
  net.deaf = {1};
  net[0].connect(kA, net[1], kB);
  const Time begin = net.now;
  net.run(5s);
  CHECK(net.sent >= 26);  // every 100 to 125 ms; then it goes on, slowly
  CHECK(net.sent <= 34);
  REQUIRE(net[0].silent.count(value(kA)) == 1);
  CHECK(net[0].silent[value(kA)] - begin >= 2s);
  CHECK(net[0].silent[value(kA)] - begin < 2200ms);
  CHECK(net[0].resolution.pending() == 1);
  net.deaf.clear();
  net[1].connect(kB, net[0], kA);  // its process has started now
  net.run(1ms);
  CHECK(net[0].resolved[value(kA)] == net[1].own[value(kB)].info);
  CHECK(net[1].resolved[value(kB)] == net[0].own[value(kA)].info);
}

TEST_CASE("resolution: both have given up asking, and find each other all the same") {
  Net net;
  net.deaf = {0, 1};
  net[0].connect(kA, net[1], kB);
  net[1].connect(kB, net[0], kA);
  net.run(5s);
  CHECK(net[0].silent.size() + net[1].silent.size() == 2);
  net.deaf.clear();
  net.run(2s);
  CHECK(net[0].resolved.size() + net[1].resolved.size() == 2);
  // And stop asking when a queue pair has heard of its peer, or has failed.
  net.deaf = {1};
  net[0].connect(kA, net[1], kB);
  net[0].connect(Qpn{0x30}, net[1], Qpn{0x31});
  net.run(2s);
  net[0].own[value(kA)].heard = true;
  net[0].own.erase(0x30);
  net.run(2s);
  CHECK(net[0].resolution.pending() == 0);
}

TEST_CASE("resolution: thousands of queue pairs at once, none is taken for a stranger") {
  Net net(3);
  net.loss = 0.01;
  const std::uint32_t pairs = kBrief ? 300 : 2000;
  for (std::uint32_t i = 0; i < pairs; ++i)
    net[0].connect(Qpn{0x1000 + i}, net[1], Qpn{0x11000 + i});
  net.run(300ms);
  for (std::uint32_t i = 0; i < pairs; ++i)
    net[1].connect(Qpn{0x11000 + i}, net[0], Qpn{0x1000 + i});
  net.run(10s);
  CHECK(net[0].resolved.size() == pairs);
  CHECK(net[1].resolved.size() == pairs);
  CHECK(net[0].silent.empty());
  CHECK(net[1].silent.empty());
  CHECK(net[0].refused.empty());
}

TEST_CASE("resolution: a thousand queue pairs of hosts that hardly run, one after the other") {
  for (const auto period : {10ms, 100ms, 400ms}) {
    CAPTURE(period.count());
    Net net(4);
    net.period = period;
    constexpr std::uint32_t kPairs = 1000;
    const auto qpn = [](unsigned side, std::uint32_t i) {
      return Qpn{0x1000 + side * 0x10000 + i};
    };
    for (std::uint32_t i = 0; i < kPairs; ++i) net[1].own[value(qpn(1, i))] = {};  // not ready
    for (unsigned side : {0u, 1u}) {
      for (std::uint32_t i = 0; i < kPairs; ++i) {
        net[side].connect(qpn(side, i), net[1 - side], qpn(1 - side, i));
        net[side].own[value(qpn(side, i))].waited_for = true;
      }
      net.run(2s);
    }
    net.run(30s);
    CHECK(net.sent < 20 * kPairs);
    for (unsigned side : {0u, 1u}) {
      CHECK(net[side].resolved.size() == kPairs);
      CHECK(net[side].silent.empty());
      CHECK(net[side].refused.empty());
    }
  }
}

TEST_CASE("resolution: a thousand queue pairs of hosts that handle a message in 0.4 ms") {
  Net net(5);
  net.period = 10ms;
  net.per_period = 25;
  constexpr std::uint32_t kPairs = 1000;
  for (unsigned side : {0u, 1u})
    for (std::uint32_t i = 0; i < kPairs; ++i)
      net[side].connect(Qpn{0x1000 + side * 0x10000 + i}, net[1 - side],
                        Qpn{0x11000 - side * 0x10000 + i});
  net.run(5s);
  CHECK(net[0].resolved.size() == kPairs);
  CHECK(net[1].resolved.size() == kPairs);
  CHECK(net.longest_queue < 500);
}

TEST_CASE(
    "resolution: a thousand queue pairs of a device that never answers are given up together") {
  Net net;
  net.deaf = {1};
  constexpr std::uint32_t kPairs = 1000;
  for (std::uint32_t i = 0; i < kPairs; ++i)
    net[0].connect(Qpn{0x1000 + i}, net[1], Qpn{0x11000 + i});
  const Time begin = net.now;
  net.run(7s);
  REQUIRE(net[0].silent.size() == kPairs);
  for (const auto& [qpn, when] : net[0].silent) CHECK(when - begin < 6s);
}

TEST_CASE(
    "resolution: a device that answers is asked until its queue pair is ready, or patience ends") {
  Net net;
  net[0].connect(kA, net[1], kB);
  net.run(15s);  // nothing is posted: it asks on, slowly
  CHECK(net[0].refused.empty());
  net[0].connect(kA, net[1], kB);
  net[0].own[value(kA)].waited_for = true;
  net.sent = 0;
  net.run(9s);
  CHECK(net[0].silent.empty());
  CHECK(net[0].refused.empty());
  CHECK(net.sent < 500);  // not in a hurry
  net.run(2s);
  REQUIRE(net[0].refused.count(value(kA)) == 1);
  CHECK(net[0].refused[value(kA)] == "its queue pair is not connected to this one");
  // The same when that queue pair is connected to another one.
  net[1].connect(kB, net[0], Qpn{0x77});
  net[0].refused.clear();
  net[0].connect(kA, net[1], kB);
  net[0].own[value(kA)].waited_for = true;
  net.run(12s);
  CHECK(net[0].refused.count(value(kA)) == 1);
  CHECK(net[0].resolved.empty());
  CHECK(net[1].resolved.empty());
}

TEST_CASE("resolution: no answer is larger than what asked for it, and asking leaves no state") {
  Net net;
  std::size_t hello = 0, offer = 0;
  net.tap = [&](unsigned, unsigned, ResolutionMessage& m) {
    switch (static_cast<wire::ResolutionStep>(packet_of(m).header.step)) {
      case wire::ResolutionStep::hello:
        hello = m.size;
        break;
      case wire::ResolutionStep::challenge:
        CHECK(m.size <= hello);
        break;
      case wire::ResolutionStep::offer:
        offer = m.size;
        break;
      case wire::ResolutionStep::answer:
        CHECK(m.size <= offer);
        break;
    }
  };
  net[1].connect(kB, net[0], kA);
  net[1].own[value(kB)].info.planes.assign(32, net[1].address);
  net[0].connect(kA, net[1], kB);
  net.run(1s);
  CHECK(net[0].resolved[value(kA)].planes.size() == 32);
  CHECK(offer == wire::kLongResolution);
}

TEST_CASE("resolution: forged messages achieve nothing") {
  // A stranger sees none of the messages between the two, and can send any to both.
  Net net(5, 3);
  net[0].connect(kA, net[1], kB);
  net[1].connect(kB, net[0], kA);
  net.deaf = {0, 1};
  const auto forge = [&](unsigned to, auto change) {
    ResolutionMessage m;
    m.bytes = {};
    ConnectionInfo info;
    info.device_guid = 666;
    info.qpn = to == 0 ? kB : kA;
    info.planes = {net[2].address};
    const auto blob = encode(info);
    wire::ResolutionPacket p{};
    p.bth = wire::Bth::make(wire::Opcode::resolution, to == 0 ? kA : kB, Psn{});
    p.header.magic = wire::ResolutionHeader::kMagic;
    p.header.version = wire::ResolutionHeader::kVersion;
    p.header.qpn_a = value(to == 0 ? kA : kA);
    p.header.qpn_b = value(kB);
    p.header.nonce_a = net.random.next();
    p.header.nonce_b = net.random.next();
    p.header.info_length = static_cast<std::uint16_t>(blob.size());
    change(p);
    std::memcpy(m.bytes.data(), &p, sizeof p);
    std::copy(blob.begin(), blob.end(), m.bytes.begin() + sizeof p);
    m.size = wire::kLongResolution;
    m.set_sender(net[2].address);
    m.source = port::source_tag(net[2].address.ip);
    return m;
  };
  for (int i = 0; i < 5000; ++i) {
    for (const unsigned to : {0u, 1u})
      for (const std::uint8_t step : {2, 3, 4})
        net[to].resolution.on_message(net.now, forge(to, [&](auto& p) { p.header.step = step; }));
  }
  CHECK(net[0].calls == 0);
  CHECK(net[1].calls == 0);
  CHECK(net[0].refused.empty());
  // In its own name, at its own address, but as the device that somebody waits for: proved is the
  // address, and it is not that device's.
  net.deaf = {0};
  net[2].connect(kA, net[1], kB);
  net[2].own[value(kA)].info.planes = {net[0].address, net[2].address};
  net[2].own[value(kA)].info.device_guid = 1;
  net.run(1s);
  CHECK(net[1].resolved.empty());
  CHECK(net[2].resolved.empty());
  net[2].resolution.stop(kA);
  // In the name of another address: what the port saw is not what the message says.
  ResolutionMessage spoofed = forge(1, [](auto& p) { p.header.step = 1; });
  spoofed.set_sender(net[0].address);
  ResolutionMessage out;
  while (net[1].resolution.poll_message(out)) {
  }
  net[1].resolution.on_message(net.now, spoofed);
  CHECK_FALSE(net[1].resolution.poll_message(out));
  // Its own, with a proof that is right, names a device that nobody is waiting for.
  net.deaf.clear();
  net.run(2s);
  CHECK(net[1].resolved[value(kB)].device_guid == 1);
}

TEST_CASE("resolution: a proof is good for some seconds, and for its queue pairs only") {
  Net net;
  std::vector<ResolutionMessage> offers;
  net.tap = [&](unsigned from, unsigned, ResolutionMessage& m) {
    if (from == 0 && packet_of(m).header.step == 3) offers.push_back(m);
  };
  net[0].connect(kA, net[1], kB);
  net[1].connect(kB, net[0], kA);
  net[1].resolution.stop(kB);
  net.run(10ms);
  REQUIRE(!offers.empty());
  const unsigned calls = net[1].calls;
  REQUIRE(calls > 0);
  net[1].resolution.on_message(net.now, offers[0]);
  CHECK(net[1].calls == calls + 1);  // a repetition: the answer may have been lost
  ResolutionMessage other = offers[0];
  auto p = packet_of(other);
  p.header.qpn_a = 0x99;
  std::memcpy(other.bytes.data(), &p, sizeof p);
  net[1].resolution.on_message(net.now, other);
  CHECK(net[1].calls == calls + 1);
  net.run(9s);
  net[1].resolution.on_message(net.now, offers[0]);
  CHECK(net[1].calls == calls + 1);
}

TEST_CASE("resolution: random bytes, and damaged messages, are harmless") {
  Net net(7);
  std::vector<ResolutionMessage> seen;
  net.tap = [&](unsigned, unsigned, ResolutionMessage& m) { seen.push_back(m); };
  net[0].connect(kA, net[1], kB);
  net[1].connect(kB, net[0], kA);
  net.run(5ms);
  net.tap = nullptr;
  for (int i = 0; i < 50'000; ++i) {
    ResolutionMessage m = seen[net.random.below(static_cast<std::uint32_t>(seen.size()))];
    if (net.random.chance(0.1))
      for (auto& byte : m.bytes) byte = static_cast<std::uint8_t>(net.random.next());
    for (auto flips = net.random.below(6); flips > 0; --flips)
      m.bytes[net.random.below(net.random.chance(0.7) ? 160 : 1088)] =
          static_cast<std::uint8_t>(net.random.next());
    if (net.random.chance(0.2)) m.size = net.random.below(1089);
    net[i % 2].resolution.on_message(net.now, m);
    if (i % 100 == 0) net.run(1ms);
  }
  net.run(1s);
  // Both still answer.
  net[0].resolved.clear();
  net[0].connect(kA, net[1], kB);
  net.run(1s);
  CHECK(net[0].resolved.size() == 1);
}
