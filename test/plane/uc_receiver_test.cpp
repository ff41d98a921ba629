// SPDX-License-Identifier: Apache-2.0
#include "mrc/verbs/uc.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace std::chrono_literals;

namespace uc_receiver_test {

using PacketNames = std::vector<wire::PacketName>;

wire::PacketName packet(std::uint32_t psn) {
  return {Qpn{0x020005}, Psn{psn}};
}

struct UcReceiverRig {
  explicit UcReceiverRig(const UcReceiverOptions& options = {}) : receiver(options) {}

  /// Whether it was joined.
  bool arrive(std::uint16_t path, std::uint32_t seq, std::uint32_t length = 1024,
              std::uint8_t epoch = 0) {
    return note(receiver.arrived(path, epoch, seq, length, now));
  }
  /// The same. The header's bytes tell path and number.
  bool head(std::uint16_t path, std::uint32_t seq, std::uint16_t length = 1024,
            std::uint8_t epoch = 0) {
    bytes.assign(20, static_cast<std::uint8_t>(seq));
    bytes[0] = static_cast<std::uint8_t>(path);
    return note(receiver.header({{path, epoch, seq}, length, 2, seq + 7, bytes}));
  }
  bool note(const UcJoined* result) {
    if (result == nullptr) return false;
    joined = *result;
    return true;
  }
  UcVerdict again(std::vector<UcName> origins, std::uint32_t psn) {
    return receiver.retransmitted(origins, packet(psn), now);
  }
  PacketNames settled() {
    const auto names = receiver.take_settled();
    PacketNames list(names.begin(), names.end());
    std::ranges::sort(list, {}, [](const wire::PacketName& n) { return n.psn.value(); });
    return list;
  }

  Time now = Time{} + 5s;
  UcReceiver receiver;
  UcJoined joined;
  std::vector<std::uint8_t> bytes;
};

constexpr auto kSettled = UcVerdict::settled;
constexpr auto kUnsettled = UcVerdict::unsettled;
constexpr auto kDrop = UcVerdict::drop;

TEST_CASE("UC receiver: payload and header are joined, whichever comes first") {
  UcReceiverRig rig;
  CHECK_FALSE(rig.arrive(3, 0));
  REQUIRE(rig.head(3, 0));
  CHECK(rig.joined.header.size() == 20);
  CHECK(rig.joined.header[0] == 3);
  CHECK(rig.joined.payload_length == 1024);
  CHECK(rig.joined.path == 3);
  CHECK(rig.joined.pad == 2);
  CHECK(rig.joined.check == 7);
  CHECK_FALSE(rig.head(3, 1, 77));
  CHECK_FALSE(rig.head(3, 2));
  CHECK_FALSE(rig.head(4, 1, 77));
  rig.bytes.assign(20, 0xEE);  // it has its own copy of a header that waits
  REQUIRE(rig.arrive(3, 1, 77));
  CHECK(rig.joined.header[19] == 1);
  CHECK(rig.joined.payload_length == 77);
  CHECK(rig.joined.check == 8);
  CHECK(rig.joined.pad == 2);
  REQUIRE(rig.arrive(3, 2));
  CHECK_FALSE(rig.head(3, 2));  // the UD network has sent it twice
  CHECK_FALSE(rig.head(3, 0));
  CHECK(rig.receiver.stats().joined == 3);
  CHECK(rig.receiver.stats().unmatched_headers == 0);
  CHECK_FALSE(rig.receiver.broken());
}

TEST_CASE("UC receiver: what is lost leaves the other half unmatched") {
  UcReceiverRig rig({.ring = 8});
  for (std::uint32_t seq = 0; seq < 100; ++seq) CHECK_FALSE(rig.arrive(0, seq));  // no headers
  CHECK(rig.receiver.stats().unmatched_arrivals == 92);
  for (std::uint32_t seq = 92; seq < 100; ++seq) CHECK(rig.head(0, seq));
  CHECK_FALSE(rig.head(0, 91));  // too late
  CHECK(rig.receiver.stats().unmatched_headers == 1);
  CHECK_FALSE(rig.head(0, 108));  // too early
  CHECK(rig.receiver.stats().unmatched_headers == 2);
  for (std::uint32_t seq = 100; seq < 108; ++seq) CHECK_FALSE(rig.head(0, seq));
  CHECK(rig.arrive(0, 107));  // the others have been lost
  CHECK_FALSE(rig.head(0, 103));
  CHECK(rig.receiver.stats().unmatched_headers == 2);  // it waits already
  for (std::uint32_t seq = 108; seq < 116; ++seq) CHECK_FALSE(rig.arrive(0, seq));
  CHECK(rig.receiver.stats().unmatched_headers == 2 + 7);
  CHECK(rig.receiver.stats().joined == 8 + 1);
  CHECK(rig.receiver.stats().unmatched_arrivals == 92);
  CHECK(rig.receiver.reset(0, 1));
  CHECK(rig.receiver.stats().unmatched_arrivals == 92 + 8);
}

TEST_CASE("UC receiver: a header of a packet that was lost is not kept") {
  UcReceiverRig rig({.ring = 4});
  CHECK_FALSE(rig.arrive(0, 5));
  CHECK_FALSE(rig.head(0, 3));
  CHECK(rig.receiver.stats().unmatched_headers == 1);
  CHECK_FALSE(rig.head(0, 9));  // 5's place: what waited for a header gives way
  CHECK(rig.receiver.stats().unmatched_arrivals == 1);
  CHECK_FALSE(rig.head(0, 5));
  CHECK(rig.receiver.stats().unmatched_headers == 2);
  CHECK_FALSE(rig.head(0, 8));
  CHECK_FALSE(rig.arrive(0, 7));
  CHECK_FALSE(rig.head(0, 11));
  CHECK(rig.receiver.stats().unmatched_arrivals == 2);
  CHECK(rig.arrive(0, 8));
  CHECK(rig.arrive(0, 9));
  CHECK(rig.arrive(0, 11));
}

TEST_CASE("UC receiver: a length that differs from the header's is a loss") {
  UcReceiverRig rig;
  CHECK_FALSE(rig.arrive(0, 0, 1000));
  CHECK_FALSE(rig.head(0, 0, 1001));
  CHECK_FALSE(rig.head(0, 1, 1001));
  CHECK_FALSE(rig.arrive(0, 1, 1000));
  CHECK_FALSE(rig.arrive(0, 2, 65536 + 1000));
  CHECK_FALSE(rig.head(0, 2, 1000));
  CHECK_FALSE(rig.head(0, 2, 1000));
  CHECK(rig.receiver.stats().length_mismatches == 3);
  CHECK(rig.receiver.stats().joined == 0);
  CHECK(rig.again({{0, 0, 2}}, 9) == kSettled);
}

TEST_CASE("UC receiver: a packet waits for all of its origins") {
  UcReceiverRig rig;
  CHECK(rig.again({{0, 0, 4}, {1, 0, 2}, {5, 0, 0}}, 7) == kUnsettled);
  (void)rig.arrive(1, 2);
  (void)rig.arrive(0, 9);
  CHECK(rig.settled().empty());
  (void)rig.arrive(5, 0);
  CHECK(rig.settled() == PacketNames{packet(7)});

  // And for those of all its retransmissions.
  CHECK(rig.again({{0, 0, 20}}, 8) == kUnsettled);
  CHECK(rig.again({{5, 0, 0}}, 8) == kUnsettled);  // came already: but the other one has not
  (void)rig.arrive(0, 20);
  CHECK(rig.settled() == PacketNames{packet(8)});
  CHECK(rig.again({{0, 0, 30}, {0, 0, 31}, {0, 0, 29}}, 9) == kUnsettled);  // one path twice
  (void)rig.arrive(0, 30);
  CHECK(rig.settled().empty());
  (void)rig.arrive(0, 31);
  CHECK(rig.settled() == PacketNames{packet(9)});
}

TEST_CASE("UC receiver: no room for further unsettled packets") {
  UcReceiverRig rig({.waits = 4});
  CHECK(rig.again({{0, 0, 0}, {1, 0, 0}}, 1) == kUnsettled);
  CHECK(rig.again({{0, 0, 0}, {1, 0, 0}, {2, 0, 0}}, 2) == kDrop);
  CHECK(rig.again({{0, 0, 1}}, 3) == kUnsettled);
  CHECK(rig.again({{0, 0, 0}}, 4) == kUnsettled);
  CHECK(rig.again({{0, 0, 0}}, 5) == kDrop);
  CHECK(rig.receiver.stats().no_room == 2);
  (void)rig.arrive(0, 1);
  // Names that nobody has taken keep their room.
  CHECK(rig.again({{0, 0, 9}}, 5) == kUnsettled);
  CHECK(rig.again({{0, 0, 9}}, 6) == kDrop);
  CHECK(rig.again({{0, 0, 9}}, 3) == kUnsettled);
  CHECK(rig.settled() == PacketNames{packet(4)});
  CHECK(rig.again({{0, 0, 9}}, 6) == kUnsettled);
  (void)rig.arrive(0, 9);
  (void)rig.arrive(1, 0);
  CHECK(rig.settled() == PacketNames{packet(1), packet(3), packet(5), packet(6)});
  CHECK(rig.receiver.unsettled() == 0);
}

TEST_CASE("UC receiver: origins that cannot be are refused, those before a reset are settled") {
  UcReceiverRig rig({.paths = 4});
  CHECK(rig.again({}, 1) == kDrop);
  CHECK(rig.again({{4, 0, 0}}, 1) == kDrop);
  CHECK(rig.again({{0, 0, 0}, {0, 1, 0}}, 1) == kDrop);
  CHECK(rig.again(std::vector<UcName>(65, UcName{}), 1) == kDrop);
  CHECK(rig.receiver.stats().malformed == 4);
  CHECK(rig.receiver.unsettled() == 0);
  REQUIRE(rig.receiver.reset(0, 1));
  CHECK(rig.again({{0, 0, 1000}}, 1) == kSettled);
  CHECK(rig.again({{0, 0, 1000}, {0, 1, 0}}, 2) == kUnsettled);
  CHECK_FALSE(rig.head(4, 0));
  CHECK(rig.receiver.stats().malformed == 5);
  CHECK_FALSE(rig.arrive(4, 0));
}

TEST_CASE("UC receiver: a reset settles what waited for the path, and begins at 0") {
  UcReceiverRig rig;
  (void)rig.arrive(0, 10);
  CHECK_FALSE(rig.head(0, 11));
  CHECK(rig.again({{0, 0, 20}}, 1) == kUnsettled);
  CHECK(rig.again({{0, 0, 21}, {1, 0, 0}}, 2) == kUnsettled);
  CHECK_FALSE(rig.receiver.reset(0, 0));
  CHECK_FALSE(rig.receiver.reset(0, 255));
  CHECK_FALSE(rig.receiver.reset(16, 1));
  REQUIRE(rig.receiver.reset(0, 1));
  CHECK(rig.receiver.epoch(0) == 1);
  CHECK(rig.settled() == PacketNames{packet(1)});
  CHECK_FALSE(rig.arrive(0, 11));  // read late from the old queue pair
  CHECK_FALSE(rig.head(0, 12));
  CHECK(rig.receiver.stats().stale_epochs == 2);
  CHECK(rig.receiver.stats().unmatched_headers == 1);
  CHECK(rig.receiver.stats().unmatched_arrivals == 1);
  CHECK_FALSE(rig.arrive(0, 0, 1024, 1));
  CHECK(rig.head(0, 0, 1024, 1));
  CHECK_FALSE(rig.head(0, 11, 1024, 1));
  CHECK(rig.arrive(0, 11, 1024, 1));
  CHECK_FALSE(rig.receiver.broken());
  CHECK(rig.receiver.stats().resets == 1);
  (void)rig.arrive(1, 0);
  CHECK(rig.settled() == PacketNames{packet(2)});
  for (unsigned epoch = 2; epoch < 600; ++epoch)
    REQUIRE(rig.receiver.reset(0, static_cast<std::uint8_t>(epoch)));
}

TEST_CASE("UC receiver: a path that brings nothing must be reset") {
  UcReceiverRig rig;
  CHECK(rig.receiver.wants_reset(rig.now) == 0);
  CHECK(rig.again({{3, 0, 5}}, 1) == kUnsettled);
  CHECK(rig.receiver.next_deadline() == rig.now + 10ms);
  rig.now += 6ms;
  CHECK(rig.again({{3, 0, 6}, {7, 0, 6}}, 2) == kUnsettled);  // defers nothing
  rig.now += 3999us;
  CHECK(rig.receiver.wants_reset(rig.now) == 0);
  rig.now += 1us;
  CHECK(rig.receiver.wants_reset(rig.now) == 1u << 3);
  CHECK(rig.receiver.wants_reset(rig.now) == 0);
  rig.now += 6ms;
  CHECK(rig.receiver.wants_reset(rig.now) == 1u << 7);
  rig.now += 4ms;
  CHECK(rig.receiver.wants_reset(rig.now) == 1u << 3);  // once more
  REQUIRE(rig.receiver.reset(3, 1));
  REQUIRE(rig.receiver.reset(7, 1));
  CHECK(rig.receiver.next_deadline() == kNever);
  CHECK(rig.settled() == PacketNames{packet(1), packet(2)});

  // One that is only slow need not.
  CHECK(rig.again({{4, 0, 100}}, 3) == kUnsettled);
  for (std::uint32_t seq = 0; seq < 100; ++seq) {
    rig.now += 9ms;
    CHECK(rig.receiver.wants_reset(rig.now) == 0);
    (void)rig.arrive(4, seq);
  }
  CHECK(rig.receiver.next_deadline() == rig.now + 10ms);
  (void)rig.arrive(4, 100);
  CHECK(rig.receiver.next_deadline() == kNever);
}

TEST_CASE("UC receiver: a packet that comes twice or too late breaks the promise") {
  UcReceiverRig rig;
  (void)rig.arrive(0, 0);
  (void)rig.arrive(0, 1);
  CHECK_FALSE(rig.receiver.broken());
  SUBCASE("twice") {
    CHECK_FALSE(rig.arrive(0, 1));
    CHECK_FALSE(rig.arrive(0, 0));
    CHECK(rig.receiver.stats().duplicates == 2);
    CHECK(rig.receiver.stats().late_writes == 2);
  }
  SUBCASE("overtaken") {
    (void)rig.arrive(0, 5);
    CHECK_FALSE(rig.arrive(0, 3));
    CHECK_FALSE(rig.arrive(0, 3));
    CHECK(rig.receiver.stats().overtaken == 1);
    CHECK(rig.receiver.stats().duplicates == 1);
    CHECK(rig.receiver.stats().late_writes == 2);
  }
  SUBCASE("a marker: nothing was written") {
    CHECK_FALSE(rig.arrive(0, 2, 0));
    CHECK_FALSE(rig.arrive(0, 2, 0));
    CHECK(rig.receiver.stats().markers == 2);
    CHECK(rig.receiver.stats().duplicates == 1);
    CHECK(rig.receiver.stats().late_writes == 0);
  }
  CHECK(rig.receiver.broken());
  CHECK_FALSE(rig.head(0, 1));  // joins nothing any more
  CHECK(rig.receiver.wants_reset(rig.now) == 1);
  CHECK(rig.again({{0, 0, 0}}, 7) == kUnsettled);  // not even what has come
  (void)rig.arrive(0, 50);
  CHECK_FALSE(rig.head(0, 50));
  CHECK(rig.settled().empty());
  CHECK(rig.again({{1, 0, 0}}, 8) == kUnsettled);
  (void)rig.arrive(1, 0);
  CHECK(rig.settled() == PacketNames{packet(8)});  // other paths go on
  CHECK(rig.head(1, 0));
  REQUIRE(rig.receiver.reset(0, 1));
  CHECK(rig.settled() == PacketNames{packet(7)});
  CHECK(rig.again({{0, 0, 50}}, 9) == kSettled);
  CHECK_FALSE(rig.arrive(0, 0, 1024, 1));
  CHECK(rig.head(0, 0, 1024, 1));
  CHECK(rig.receiver.broken());
}

TEST_CASE("UC waits: the same as a plain model, in random order") {
  struct Open {
    std::map<std::uint16_t, std::uint32_t> seqs;
  };
  constexpr std::uint16_t kPaths = 5;
  constexpr std::size_t kWaits = 60;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    UcWaits waits(kPaths, kWaits);
    std::map<std::uint32_t, Open> model;
    std::vector<std::uint32_t> settled;
    std::array<std::uint32_t, kPaths> highest;
    highest.fill(0xFFFFFFFFu - 300);
    const auto count = [&] {
      std::size_t sum = 0;
      for (const auto& [psn, open] : model) sum += open.seqs.size();
      return sum;
    };
    int refused = 0;
    for (int step = 0; step < 20000; ++step) {
      const auto path = static_cast<std::uint16_t>(random.below(kPaths));
      const std::uint32_t what = random.below(10);
      if (what < 5) {
        const std::uint32_t psn = random.below(100);
        std::vector<UcName> origins;
        for (std::uint32_t n = 1 + random.below(3); n > 0; --n) {
          const auto on = static_cast<std::uint16_t>((path + n) % kPaths);
          origins.push_back({on, 0, highest[on] + 1 + random.below(20)});
        }
        const bool known = model.contains(psn) || std::ranges::find(settled, psn) != settled.end();
        const bool room =
            count() + origins.size() <= kWaits && (known || model.size() + settled.size() < kWaits);
        REQUIRE(waits.add(packet(psn), origins) == room);
        if (!room) {
          ++refused;
          continue;
        }
        std::erase(settled, psn);
        for (const UcName& o : origins) {
          const auto [at, fresh] = model[psn].seqs.try_emplace(o.path, o.seq);
          if (!fresh && uc_steps(at->second, o.seq) > 0) at->second = o.seq;
        }
      } else if (what < 9) {
        const bool all = random.chance(0.02);
        highest[path] += random.below(6);
        if (all)
          waits.reach_all(path);
        else
          waits.reach(path, highest[path]);
        for (auto entry = model.begin(); entry != model.end();) {
          auto& seqs = entry->second.seqs;
          const auto at = seqs.find(path);
          if (at != seqs.end() && (all || uc_steps(at->second, highest[path]) >= 0)) seqs.erase(at);
          if (seqs.empty()) settled.push_back(entry->first);
          entry = seqs.empty() ? model.erase(entry) : std::next(entry);
        }
      } else {
        std::vector<std::uint32_t> taken;
        for (const wire::PacketName& name : waits.take_settled()) taken.push_back(name.psn.value());
        std::ranges::sort(taken);
        std::ranges::sort(settled);
        REQUIRE(taken == settled);
        settled.clear();
      }
      REQUIRE(waits.packets() == model.size());
      for (std::uint16_t p = 0; p < kPaths; ++p)
        REQUIRE(waits.waits_for(p) == std::ranges::any_of(model, [&](const auto& entry) {
                  return entry.second.seqs.contains(p);
                }));
    }
    CHECK(refused > 10);
  }
}

TEST_CASE("UC receiver: options out of range") {
  CHECK_THROWS_AS(UcReceiver({.paths = 0}), Error);
  CHECK_THROWS_AS(UcReceiver({.paths = 65}), Error);
  CHECK_THROWS_AS(UcReceiver({.ring = 1}), Error);
  CHECK_THROWS_AS(UcReceiver({.ring = 65537}), Error);
  CHECK_THROWS_AS(UcReceiver({.waits = 0}), Error);
  CHECK_THROWS_AS(UcReceiver({.waits = (1u << 20) + 1}), Error);
  CHECK_THROWS_AS(UcReceiver({.reset_after = 0ms}), Error);
}

}  // namespace uc_receiver_test
