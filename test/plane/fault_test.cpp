// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/faults/injector.hpp"
#include "support/plausible.hpp"

using namespace mrc;
using namespace mrc::port;
using mrc::test::plausible;
using namespace std::chrono_literals;

namespace fault_test {

constexpr Time kStart{1s};

/// Packets of `size` bytes that carry their number, pushed through an injector.
struct FaultRig {
  explicit FaultRig(std::uint64_t seed = 1, std::uint32_t slots = 2048) : faults(seed, slots) {}

  struct Got {
    std::uint32_t number;
    RawPacket packet;
    std::vector<std::uint8_t> bytes;
  };
  struct Sink final : PacketSink {
    explicit Sink(FaultRig& r) : rig(r) {}
    FaultRig& rig;
    [[nodiscard]] bool full() const noexcept override { return rig.got.size() >= rig.room; }
    void deliver(const RawPacket& p) noexcept override {
      Got g;
      g.packet = p;
      g.bytes.assign(p.bytes.begin(), p.bytes.end());
      std::memcpy(&g.number, p.bytes.data() + 8, 4);
      rig.got.push_back(std::move(g));
    }
  };

  void arrive(Time now, Ev ev = Ev{7}) {
    buffer.assign(size, 0xA5);
    std::memcpy(buffer.data() + 8, &count, 4);
    ++count;
    RawPacket p;
    p.bytes = buffer;
    p.facts.entropy = ev;
    p.facts.ecn = ecn;
    p.facts.udp_length = static_cast<std::uint32_t>(size + 8);
    p.trimmable = trimmable;
    Sink sink(*this);
    faults.receive(now, p, sink);
  }
  void release(Time now) {
    Sink sink(*this);
    faults.release(now, sink);
  }
  void arrive_many(int n, Time now = kStart) {
    for (int i = 0; i < n; ++i) arrive(now);
  }

  FaultInjector faults;
  std::vector<Got> got;
  std::vector<std::uint8_t> buffer;
  std::size_t size = 200;
  std::size_t room = 1'000'000;
  std::uint32_t count = 0;
  Ecn ecn = Ecn::ect0;
  bool trimmable = true;
};

/// All 200 bytes are as they were sent.
bool intact(const FaultRig::Got& got) {
  const auto whole = [](std::uint8_t byte) { return byte == 0xA5; };
  return got.bytes.size() == 200 && std::all_of(got.bytes.begin(), got.bytes.begin() + 8, whole) &&
         std::all_of(got.bytes.begin() + 12, got.bytes.end(), whole);
}

FaultSpec with(auto FaultSpec::*member, auto value) {
  FaultSpec spec;
  spec.*member = value;
  return spec;
}

TEST_CASE("loss has its rate") {
  FaultRig rig;
  CHECK_FALSE(rig.faults.active());
  rig.faults.set(with(&FaultSpec::loss, 0.1));
  CHECK(rig.faults.active());
  rig.arrive_many(20000);
  CHECK(plausible(rig.faults.stats().lost, 20000, 0.1));
  CHECK(rig.got.size() == 20000 - rig.faults.stats().lost);
  rig.faults.clear();
  CHECK_FALSE(rig.faults.active());
}

TEST_CASE("corruption flips one bit that the iCRC covers") {
  FaultRig rig;
  rig.size = 16;
  rig.faults.set(with(&FaultSpec::corrupt, 1.0));
  std::map<std::size_t, int> hits;
  const std::vector<std::uint8_t> clean(16, 0xA5);
  for (int i = 0; i < 4000; ++i) {
    rig.arrive(kStart);
    std::vector<std::uint8_t> expected = clean;
    const std::uint32_t number = rig.count - 1;
    std::memcpy(expected.data() + 8, &number, 4);
    int flipped = 0;
    for (std::size_t at = 0; at < 16; ++at) {
      const auto difference = static_cast<std::uint8_t>(rig.got.back().bytes[at] ^ expected[at]);
      flipped += std::popcount(difference);
      if (difference != 0) ++hits[at];
    }
    REQUIRE(flipped == 1);
  }
  CHECK(hits.size() == 15);
  CHECK(hits.count(4) == 0);  // the variant byte of BTH is masked
  CHECK(rig.faults.stats().corrupted == 4000);
}

TEST_CASE("ECN marks what is ECN-capable") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::ecn, 0.25));
  rig.arrive_many(20000);
  std::uint64_t marked = 0;
  for (const auto& g : rig.got) marked += g.packet.facts.ecn == Ecn::ce ? 1 : 0;
  CHECK(plausible(marked, 20000, 0.25));
  CHECK(marked == rig.faults.stats().marked);
  rig.got.clear();
  rig.ecn = Ecn::not_ect;
  rig.arrive_many(1000);
  for (const auto& g : rig.got) CHECK(g.packet.facts.ecn == Ecn::not_ect);
}

TEST_CASE("trimming cuts trimmable data packets and keeps the UDP length") {
  FaultRig rig;
  FaultSpec spec;
  spec.trim = 0.5;
  spec.trim_last_hop = 1;
  rig.faults.set(spec);
  rig.arrive_many(10000);
  std::uint64_t trimmed = 0;
  for (const auto& g : rig.got) {
    REQUIRE(g.packet.bytes.size() == FaultInjector::kTrimKeep);
    REQUIRE(g.packet.facts.udp_length == 208);
    REQUIRE(g.packet.facts.trim != wire::Trim::none);
    trimmed += g.packet.facts.trim == wire::Trim::trimmed ? 1 : 0;
  }
  CHECK(plausible(trimmed, 10000, 0.5));
  CHECK(rig.faults.stats().trimmed == 10000);

  rig.got.clear();
  rig.size = FaultInjector::kTrimMinimum;  // as small as control packets
  rig.arrive(kStart);
  CHECK(rig.got.back().packet.facts.trim == wire::Trim::none);
  rig.size = 200;
  rig.trimmable = false;
  rig.arrive(kStart);
  CHECK(rig.got.back().packet.facts.trim == wire::Trim::none);
}

TEST_CASE("duplicates come twice, all of them in the end") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::duplicate, 0.3));
  rig.arrive_many(10000);
  rig.release(kStart + 2ms);
  std::map<std::uint32_t, int> times;
  for (const auto& g : rig.got) {
    ++times[g.number];
    REQUIRE(intact(g));
  }
  CHECK(times.size() == 10000);
  std::uint64_t twice = 0;
  for (const auto& [number, n] : times) {
    REQUIRE(n <= 2);
    twice += n == 2 ? 1 : 0;
  }
  CHECK(twice == rig.faults.stats().duplicated);
  CHECK(plausible(twice, 10000, 0.3));
  CHECK(rig.faults.stats().overflow == 0);
}

TEST_CASE("reordering lets a few packets overtake, and loses none") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::reorder, 0.2));
  for (int i = 0; i < 5000; ++i) {
    rig.arrive(kStart);
    if (i % 64 == 0) rig.release(kStart);  // the memory of what came out is used again
  }
  rig.release(kStart + FaultHold::kReorderTime);
  REQUIRE(rig.got.size() == 5000);
  std::uint64_t displaced = 0;
  std::uint32_t highest = 0;
  for (const auto& g : rig.got) {
    REQUIRE(intact(g));
    if (g.number < highest) {
      ++displaced;
      REQUIRE(highest - g.number <= FaultHold::kReorderSpan);
    }
    highest = std::max(highest, g.number);
  }
  CHECK(plausible(rig.faults.stats().reordered, 5000, 0.2));
  CHECK(displaced > 500);
}

TEST_CASE("the last packet held for reordering comes after a while") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::reorder, 1.0));
  rig.arrive(kStart);
  CHECK(rig.got.empty());
  CHECK(rig.faults.next_release() == kStart + FaultHold::kReorderTime);
  rig.release(kStart + FaultHold::kReorderTime - 1ns);
  CHECK(rig.got.empty());
  rig.release(rig.faults.next_release());
  CHECK(rig.got.size() == 1);
  CHECK(rig.faults.next_release() == kNever);
}

TEST_CASE("delay holds every packet for its time, in order") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::delay, Duration{1ms}));
  rig.arrive(kStart);
  rig.arrive(kStart + 10us);
  rig.arrive(kStart + 10us);
  CHECK(rig.faults.next_release() == kStart + 1ms);
  rig.release(kStart + 1ms - 1ns);
  CHECK(rig.got.empty());
  rig.release(kStart + 1ms);
  REQUIRE(rig.got.size() == 1);
  rig.release(kStart + 2ms);
  REQUIRE(rig.got.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(rig.got[i].number == i);
    CHECK(rig.got[i].bytes.size() == 200);
    CHECK(rig.got[i].packet.facts.entropy == Ev{7});
  }
  CHECK(rig.faults.stats().delayed == 3);

  // What is held when the faults end still comes, and then the injector is idle again.
  rig.arrive(kStart + 3ms);
  rig.faults.clear();
  CHECK(rig.faults.active());
  rig.release(kStart + 4ms);
  CHECK(rig.got.size() == 4);
  CHECK_FALSE(rig.faults.active());
}

TEST_CASE("jitter spreads the delay and so reorders") {
  FaultRig rig;
  FaultSpec spec;
  spec.delay = 1ms;
  spec.jitter = 1ms;
  rig.faults.set(spec);
  rig.arrive_many(1000);
  rig.release(kStart + 1ms - 1ns);
  CHECK(rig.got.empty());
  rig.release(kStart + 1500us);
  CHECK(plausible(rig.got.size(), 1000, 0.5));
  rig.release(kStart + 2ms);
  CHECK(rig.got.size() == 1000);
  std::uint64_t displaced = 0;
  for (std::size_t i = 1; i < rig.got.size(); ++i)
    displaced += rig.got[i].number < rig.got[i - 1].number ? 1 : 0;
  CHECK(displaced > 300);
}

TEST_CASE("what can't be held is dropped and counted") {
  FaultRig rig(1, 16);
  rig.faults.set(with(&FaultSpec::delay, Duration{1ms}));
  rig.arrive_many(20);
  CHECK(rig.faults.stats().overflow == 4);
  rig.release(kStart + 1ms);
  CHECK(rig.got.size() == 16);
  rig.arrive_many(1, kStart + 1ms);  // the 16 are still in use by the receiver
  CHECK(rig.faults.stats().overflow == 5);
  rig.release(kStart + 1ms);
  rig.arrive_many(16, kStart + 1ms);
  CHECK(rig.faults.stats().overflow == 5);
}

TEST_CASE("a full receiver gets the rest later") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::duplicate, 1.0));
  rig.room = 10;
  rig.arrive_many(10);
  CHECK(rig.got.size() == 10);
  CHECK(rig.faults.next_release() <= kStart);
  rig.room = 1000;
  rig.release(kStart + 2ms);
  CHECK(rig.got.size() == 20);
}

TEST_CASE("black hole and link down swallow everything") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::black_hole, true));
  rig.arrive_many(10);
  CHECK(rig.got.empty());
  CHECK(rig.faults.stats().black_holed == 10);
  CHECK(rig.faults.vanishes(0));
  CHECK_FALSE(rig.faults.down());
  rig.faults.set(with(&FaultSpec::down, true));
  rig.arrive_many(10);
  CHECK(rig.got.empty());
  CHECK(rig.faults.stats().link_down == 10);
  CHECK(rig.faults.down());
}

TEST_CASE("what is on its way when the link goes down is lost") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::delay, Duration{1ms}));
  rig.arrive_many(3);
  rig.faults.set(with(&FaultSpec::down, true));
  rig.release(kStart + 1ms);
  CHECK(rig.got.empty());
  CHECK(rig.faults.stats().link_down == 3);
}

TEST_CASE("faults can be limited to paths") {
  FaultRig rig;
  rig.faults.set_inbound(Ev{9}, with(&FaultSpec::black_hole, true));
  rig.faults.set_inbound(Ev{3}, with(&FaultSpec::loss, 1.0));
  for (std::uint32_t ev = 0; ev < 12; ++ev) rig.arrive(kStart, Ev{ev});
  CHECK(rig.got.size() == 10);
  for (const auto& g : rig.got)
    CHECK((g.packet.facts.entropy != Ev{9} && g.packet.facts.entropy != Ev{3}));
  CHECK(rig.faults.stats().black_holed == 1);
  CHECK(rig.faults.stats().lost == 1);
  rig.faults.set_inbound(Ev{9}, {});
  rig.faults.set_inbound(Ev{3}, {});
  CHECK_FALSE(rig.faults.active());

  rig.faults.set_outbound(5, with(&FaultSpec::black_hole, true));
  rig.faults.set_outbound(6, with(&FaultSpec::loss, 0.5));
  CHECK(rig.faults.vanishes(5));
  CHECK_FALSE(rig.faults.vanishes(4));
  int lost = 0;
  for (int i = 0; i < 10000; ++i) lost += rig.faults.vanishes(6) ? 1 : 0;
  CHECK(plausible(static_cast<std::uint64_t>(lost), 10000, 0.5));
  CHECK_THROWS_WITH_AS(rig.faults.set_outbound(5, with(&FaultSpec::delay, Duration{1ms})),
                       doctest::Contains("outgoing path"), Error);
}

TEST_CASE("path and port faults combine") {
  FaultRig rig;
  rig.faults.set(with(&FaultSpec::loss, 0.5));
  rig.faults.set_inbound(Ev{9}, with(&FaultSpec::loss, 0.5));
  for (int i = 0; i < 10000; ++i) rig.arrive(kStart, Ev{9});
  CHECK(plausible(rig.faults.stats().lost, 10000, 0.75));
}

TEST_CASE("specs out of range are refused") {
  FaultRig rig;
  CHECK_THROWS_AS(rig.faults.set(with(&FaultSpec::loss, 1.5)), Error);
  CHECK_THROWS_AS(rig.faults.set(with(&FaultSpec::loss, -0.1)), Error);
  CHECK_THROWS_AS(rig.faults.set(with(&FaultSpec::delay, Duration{-1ms})), Error);
  CHECK_THROWS_AS(rig.faults.set(with(&FaultSpec::jitter, Duration{2min})), Error);
}

TEST_CASE("a seed decides") {
  const auto run = [](std::uint64_t seed) {
    FaultRig rig(seed);
    FaultSpec spec;
    spec.loss = spec.duplicate = spec.reorder = spec.corrupt = 0.2;
    rig.faults.set(spec);
    rig.arrive_many(500);
    rig.release(kStart + 1ms);
    std::vector<std::vector<std::uint8_t>> bytes;
    for (const auto& g : rig.got) bytes.push_back(g.bytes);
    return bytes;
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

}  // namespace fault_test
