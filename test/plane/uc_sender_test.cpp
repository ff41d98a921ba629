// SPDX-License-Identifier: Apache-2.0
#include "mrc/verbs/uc.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace std::chrono_literals;

namespace uc_sender_test {

constexpr PeerId kPeer{3};
constexpr Qpn kOwner{0x010003};
constexpr Qpn kOther{0x010004};

struct UcSenderRig {
  explicit UcSenderRig(UcSenderOptions options = {}) : sender(options) {
    sender.add_peer(kPeer, now);
  }

  /// The first transmission of a packet, by UC on `path`; nothing if it was refused.
  std::optional<UcName> by_uc(Qpn owner, std::uint32_t psn, std::uint16_t path, PeerId to = kPeer) {
    const UcName next = sender.assign(to, path);
    if (sender.remember(owner, Psn{psn}, &next, now)) return next;
    sender.take_back(to, next);
    return std::nullopt;
  }
  bool by_ud(Qpn owner, std::uint32_t psn) {
    return sender.remember(owner, Psn{psn}, nullptr, now);
  }
  /// What is known of it: the name, if it is one.
  UcOriginKind kind(Qpn owner, std::uint32_t psn, PeerId to = kPeer) {
    return sender.origin(owner, Psn{psn}, to, now, name);
  }
  bool named(Qpn owner, std::uint32_t psn, const UcName& expected) {
    return kind(owner, psn) == UcOriginKind::name && name == expected;
  }
  std::vector<UcName> barrier(PeerId to = kPeer) {
    UcOrigins origins;
    sender.barrier(to, origins);
    return {origins.all().begin(), origins.all().end()};
  }

  Time now = Time{} + 100s;
  UcSender sender;
  UcName name;
};

TEST_CASE("UC sender: a packet that was not sent gives its number back") {
  UcSenderRig rig;
  const UcName first = rig.sender.assign(kPeer, 1);
  const UcName second = rig.sender.assign(kPeer, 1);
  rig.sender.take_back(kPeer, first);  // not the last one
  rig.sender.take_back(kPeer, second);
  rig.sender.take_back(PeerId{77}, second);
  rig.sender.take_back(kPeer, {99, 0, 0});
  CHECK(rig.sender.assign(kPeer, 1) == second);
  REQUIRE(rig.by_uc(kOwner, 1, 4));
  rig.sender.take_back(kPeer, {4, 0, 0});
  CHECK(rig.kind(kOwner, 1) == UcOriginKind::unknown);  // nobody has that number
}

TEST_CASE("UC sender: a path that was reset begins anew, and settles what was before") {
  UcSenderRig rig;
  REQUIRE(rig.by_uc(kOwner, 10, 2));
  REQUIRE(rig.by_uc(kOwner, 11, 3));
  CHECK(rig.sender.restart(kPeer, 2, 1));
  CHECK(rig.kind(kOwner, 10) == UcOriginKind::none);
  CHECK(rig.named(kOwner, 11, {3, 0, 0}));
  CHECK(rig.barrier() == std::vector<UcName>{{3, 0, 0}});
  REQUIRE(rig.by_uc(kOwner, 12, 2));
  CHECK(rig.named(kOwner, 12, {2, 1, 0}));
  CHECK_FALSE(rig.sender.restart(kPeer, 2, 1));  // repeated
  CHECK_FALSE(rig.sender.restart(kPeer, 2, 0));  // old
  CHECK_FALSE(rig.sender.restart(kPeer, 16, 1));
  CHECK_FALSE(rig.sender.restart(PeerId{9}, 2, 1));
  CHECK(rig.named(kOwner, 12, {2, 1, 0}));
  for (unsigned epoch = 2; epoch < 600; ++epoch)
    CHECK(rig.sender.restart(kPeer, 2, static_cast<std::uint8_t>(epoch)));
  CHECK(rig.sender.assign(kPeer, 2) == UcName{2, 599 & 0xFF, 0});
}

TEST_CASE("UC sender: a PSN that comes round names the newer packet") {
  UcSenderRig rig({.capacity = 256});
  REQUIRE(rig.by_uc(kOwner, 5, 1));
  REQUIRE(rig.by_uc(kOwner, 5, 2));  // 2^24 packets later, however fast
  CHECK(rig.named(kOwner, 5, {2, 0, 0}));
  REQUIRE(rig.by_ud(kOwner, 5));
  CHECK(rig.kind(kOwner, 5) == UcOriginKind::none);
}

TEST_CASE("UC sender: entries older than the bound are not believed") {
  UcSenderRig rig;
  REQUIRE(rig.by_uc(kOwner, 5, 1));
  REQUIRE(rig.by_ud(kOwner, 6));
  rig.now += 9990ms;
  CHECK(rig.named(kOwner, 5, {1, 0, 0}));
  CHECK(rig.kind(kOwner, 6) == UcOriginKind::none);
  rig.now += 10ms;
  CHECK(rig.kind(kOwner, 5) == UcOriginKind::unknown);
  CHECK(rig.kind(kOwner, 6) == UcOriginKind::unknown);
  CHECK(rig.barrier() == std::vector<UcName>{{1, 0, 0}});
}

TEST_CASE("UC sender: a peer that is forgotten, and one that gets its number") {
  UcSenderRig rig;
  REQUIRE(rig.by_uc(kOwner, 5, 1));
  rig.sender.forget(kPeer);
  CHECK_FALSE(rig.sender.knows(kPeer));
  CHECK_FALSE(rig.sender.knows(PeerId{1000}));
  CHECK(rig.kind(kOwner, 5) == UcOriginKind::unknown);
  CHECK(rig.barrier().empty());
  rig.sender.forget(PeerId{1000});
  rig.now += 1ms;
  rig.sender.add_peer(kPeer, rig.now);
  CHECK(rig.sender.knows(kPeer));
  (void)rig.sender.assign(kPeer, 1);
  CHECK(rig.kind(kOwner, 5) == UcOriginKind::unknown);  // was the other one's
  CHECK(rig.barrier() == std::vector<UcName>{{1, 0, 0}});
}

TEST_CASE("UC sender: a name that the path has not given out is another peer's") {
  UcSenderRig rig;
  rig.sender.add_peer(PeerId{4}, rig.now);
  for (std::uint32_t n = 0; n < 10; ++n) REQUIRE(rig.by_uc(kOwner, n, 1));
  CHECK(rig.kind(kOwner, 9, PeerId{4}) == UcOriginKind::unknown);
}

TEST_CASE("UC sender: a place that another packet has is refused, then given away") {
  UcSenderRig rig({.capacity = 1, .protect = 5ms});
  REQUIRE(rig.by_uc(kOwner, 1, 0));
  CHECK_FALSE(rig.by_uc(kOther, 1, 0));
  CHECK_FALSE(rig.by_uc(kOwner, 2, 0));  // in one window: both may be outstanding
  CHECK_FALSE(rig.by_ud(kOwner, 1 + 32640));
  CHECK(rig.named(kOwner, 1, {0, 0, 0}));
  CHECK(rig.kind(kOther, 1) == UcOriginKind::unknown);
  CHECK(rig.sender.stats().refused == 3);
  REQUIRE(rig.by_uc(kOwner, 1 + 32641, 0));        // the first one has been acknowledged
  CHECK(rig.named(kOwner, 1 + 32641, {0, 0, 1}));  // refused ones leave no holes
  CHECK(rig.kind(kOwner, 1) == UcOriginKind::unknown);
  rig.now += 5ms;
  CHECK_FALSE(rig.by_uc(kOther, 1, 0));
  rig.now += 1ms;
  REQUIRE(rig.by_uc(kOther, 1, 0));
  CHECK(rig.named(kOther, 1, {0, 0, 2}));
  CHECK(rig.kind(kOwner, 1 + 32641) == UcOriginKind::unknown);
}

TEST_CASE("UC sender: a queue pair alone is known for a whole window, also across the PSN wrap") {
  UcSenderRig rig;
  constexpr std::uint32_t kWindow = 32640;
  std::uint32_t psn = 0xFFFFFF - 50000;
  for (std::uint32_t n = 0; n < 200000; ++n, ++psn) REQUIRE(rig.by_uc(kOwner, psn, n % 16));
  for (std::uint32_t n = 200000 - kWindow; n < 200000; ++n) {
    const std::uint32_t past = psn - (200000 - n);
    REQUIRE(rig.named(kOwner, past, {static_cast<std::uint16_t>(n % 16), 0, n / 16}));
  }
  CHECK(rig.sender.stats().refused == 0);
}

TEST_CASE("UC sender: never a wrong name, whoever shares the table") {
  // Queue pairs send at random, in a table far too small: what it says is right or `unknown`.
  struct Packet {
    std::optional<UcName> name;
    bool remembered = false;
  };
  UcSenderRig rig({.paths = 4, .capacity = 64, .protect = 2ms});
  Random random(1);
  constexpr std::uint32_t kQps = 6, kKept = 40;
  std::vector<std::vector<Packet>> sent(kQps);
  int known = 0;
  for (int step = 0; step < 100000; ++step) {
    rig.now += Duration{random.below(200000)};
    const std::uint32_t qp = random.below(kQps);
    const Qpn owner{0x10003 + qp};
    auto& list = sent[qp];
    const auto psn = static_cast<std::uint32_t>(list.size());
    if (random.chance(0.7)) {
      const auto name = rig.by_uc(owner, psn, static_cast<std::uint16_t>(random.below(4)));
      list.push_back({name, name.has_value()});
    } else {
      list.push_back({std::nullopt, rig.by_ud(owner, psn)});
    }
    if (random.chance(0.001)) {
      const auto path = static_cast<std::uint16_t>(random.below(4));
      const auto epoch = static_cast<std::uint8_t>(rig.sender.assign(kPeer, path).epoch + 1);
      REQUIRE(rig.sender.restart(kPeer, path, epoch));
    }
    const std::uint32_t past = psn - random.below(std::min(psn + 1, kKept));
    const Packet& packet = list[past];
    switch (rig.kind(owner, past)) {
      case UcOriginKind::none:  // by UD, or its path has been reset
        REQUIRE(packet.remembered);
        if (packet.name) {
          REQUIRE(rig.sender.assign(kPeer, packet.name->path).epoch != packet.name->epoch);
        }
        ++known;
        break;
      case UcOriginKind::name:
        REQUIRE(packet.name == rig.name);
        ++known;
        break;
      case UcOriginKind::unknown:
        break;
    }
  }
  CHECK(known > 10000);
  CHECK(rig.sender.stats().refused > 1000);
  CHECK(rig.sender.stats().forgotten > 1000);
}

TEST_CASE("UC sender: many queue pairs at once, with the usual settings, are rarely refused") {
  UcSenderRig rig;
  constexpr std::uint32_t kPackets = 1'000'000;
  for (std::uint32_t n = 0; n < kPackets; ++n) {  // 3 million packets a second
    rig.now += 333ns;
    (void)rig.by_uc(Qpn{0x10003 + n % 37}, n / 37, n % 16);
  }
  CHECK(rig.sender.stats().refused < kPackets / 10);
}

TEST_CASE("UC sender: options out of range") {
  CHECK_THROWS_AS(UcSender({.paths = 0}), Error);
  CHECK_THROWS_AS(UcSender({.paths = 65}), Error);
  CHECK_THROWS_AS(UcSender({.capacity = 0}), Error);
  CHECK_THROWS_AS(UcSender({.capacity = (1u << 24) + 1}), Error);
  CHECK_THROWS_AS(UcSender({.believe = 1ms, .protect = 2ms}), Error);
  CHECK_THROWS_AS(UcSender({.protect = -1ms}), Error);
  CHECK_THROWS_AS(UcSender({.believe = 25h}), Error);
  UcSender sender;
  CHECK_THROWS_AS(sender.add_peer(PeerId{1u << 21}, Time{}), Error);
}

}  // namespace uc_sender_test
