// SPDX-License-Identifier: Apache-2.0
#include "mrc/engine/receive_window.hpp"

#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"

using namespace mrc;
using namespace mrc::reliability;

namespace receive_window_test {

constexpr std::uint32_t kPsnSpace = 1u << 24;
using Verdict = ReceiveWindow::Verdict;

/// The window as sets of distances from the first PSN.
struct Model {
  Psn first;
  std::int64_t cack = -1;  ///< distance of the last PSN before the first hole
  std::set<std::int64_t> above, ends;

  [[nodiscard]] Psn psn(std::int64_t d) const {
    return Psn{first.value() + static_cast<std::uint32_t>(d)};
  }
  ReceiveWindow::Advance accept(std::int64_t d, bool end) {
    above.insert(d);
    if (end) ends.insert(d);
    ReceiveWindow::Advance a;
    while (above.erase(cack + 1) > 0) {
      ++cack;
      ++a.packets;
      if (ends.erase(cack) == 0) continue;
      ++a.messages;
      a.last_end = psn(cack);
    }
    return a;
  }
};

TEST_CASE("receive window: a naive model agrees, across the PSN wrap") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const std::uint32_t range = 128u * (1 + random.below(6));
    Model m;
    m.first = Psn{kPsnSpace - 1 - random.below(400)};
    ReceiveWindow w(range);
    w.start(m.first);
    const std::uint32_t spread = 1 + random.below(range + 20);
    for (unsigned i = 0; i < 9000; ++i) {
      const std::int64_t d = m.cack - 10 + random.below(spread + 10);
      const Psn psn = m.psn(d);
      const bool seen = d <= m.cack || m.above.count(d) > 0;
      const Verdict expected = seen                               ? Verdict::duplicate
                               : d - m.cack > std::int64_t{range} ? Verdict::beyond
                                                                  : Verdict::fresh;
      REQUIRE(w.check(psn) == expected);
      if (expected == Verdict::fresh) {
        const bool end = random.chance(0.3);
        const auto want = m.accept(d, end);
        const auto got = w.accept(psn, end);
        REQUIRE(got.packets == want.packets);
        REQUIRE(got.messages == want.messages);
        if (want.messages > 0) REQUIRE(got.last_end == want.last_end);
      }
      REQUIRE(w.cack() == m.psn(m.cack));
      REQUIRE(w.out_of_order() == m.above.size());
      if (!m.above.empty()) REQUIRE(w.max_received() == m.psn(*m.above.rbegin()));
      if (i % 7 == 0) {
        const SackRange s = w.next_sack();
        for (unsigned b = 0; b < 64; ++b) {
          const std::int64_t at = m.cack + s.offset + b;
          REQUIRE((s.bitmap >> b & 1) == (at <= m.cack || m.above.count(at) > 0 ? 1u : 0u));
        }
      }
    }
    CHECK(m.cack > 400);  // went past the wrap
  }
}

TEST_CASE("receive window: ranges at the edge of what can be held") {
  ReceiveWindow w(128);
  w.start(Psn{0});
  CHECK(w.check(Psn{127}) == Verdict::fresh);
  CHECK(w.check(Psn{128}) == Verdict::beyond);
  CHECK(w.check(Psn{kPsnSpace - 1}) == Verdict::duplicate);
  CHECK(w.check(Psn{(1u << 23) - 2}) == Verdict::beyond);
  CHECK(w.check(Psn{1u << 23}) == Verdict::duplicate);  // half the space away counts as behind
  for (std::uint32_t i = 1; i < 128; ++i) w.accept(Psn{i}, true);
  const auto a = w.accept(Psn{0}, true);
  CHECK(a.packets == 128);
  CHECK(a.messages == 128);
  CHECK(a.last_end == Psn{127});
  CHECK(w.check(Psn{255}) == Verdict::fresh);
  CHECK(w.next_sack().bitmap == 0);
}

TEST_CASE("receive window: the base walks, so that every packet is reported within a round") {
  for (const std::uint32_t range : {128u, 1024u, 4096u, 32'640u}) {
    INFO("range ", range);
    ReceiveWindow w(range);
    w.start(Psn{kPsnSpace - 77});
    const Psn first = w.cack() + 1;
    std::set<std::uint32_t> received;
    Random random(range);
    for (std::uint32_t i = 1; i < range; ++i) {  // PSN 0 of the window misses
      if (random.chance(0.4)) continue;
      w.accept(first + static_cast<std::int32_t>(i), false);
      received.insert(i);
    }
    std::set<std::uint32_t> reported;
    const std::uint32_t round = range / 64 + 2;
    for (unsigned start = 0; start < 2; ++start) {  // from any place in the walk
      reported.clear();
      for (std::uint32_t n = 0; n < round; ++n) {
        const SackRange s = w.next_sack();
        for (unsigned b = 0; b < 64; ++b)
          if ((s.bitmap >> b & 1) != 0)
            reported.insert(static_cast<std::uint32_t>(s.offset) - 1 + b);
      }
      CHECK(reported == received);
    }
  }
}

TEST_CASE("receive window: a narrow one is reported whole in each SACK") {
  ReceiveWindow w(1024);
  w.start(Psn{100});
  w.accept(Psn{101}, false);
  w.accept(Psn{150}, false);
  for (unsigned i = 0; i < 3; ++i) {
    const SackRange s = w.next_sack();
    CHECK(s.offset == 1);
    CHECK(s.bitmap == ((std::uint64_t{1} << 1) | (std::uint64_t{1} << 50)));
  }
  w.accept(Psn{100}, false);  // cack 101
  const SackRange s = w.next_sack();
  CHECK(s.offset == 1);
  CHECK(s.bitmap == std::uint64_t{1} << 48);
}

TEST_CASE("receive window: starting again forgets everything") {
  ReceiveWindow w(128);
  w.start(Psn{5});
  for (std::uint32_t i = 6; i < 100; ++i) w.accept(Psn{i}, true);
  w.start(Psn{5});
  CHECK(w.out_of_order() == 0);
  CHECK(w.check(Psn{50}) == Verdict::fresh);
  const auto a = w.accept(Psn{5}, false);
  CHECK(a.packets == 1);
  CHECK(a.messages == 0);
}

TEST_CASE("receive window: tells where each complete message begins and ends, in order") {
  ReceiveWindow w(128);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> messages;
  const auto note = [&](Psn first, Psn last) { messages.push_back({first.value(), last.value()}); };
  w.start(Psn{0xFFFFFE});
  w.accept(Psn{0xFFFFFE}, false, true, note);
  w.accept(Psn{0xFFFFFF}, true, true, note);
  w.accept(Psn{4}, true, true, note);
  w.accept(Psn{1}, true, true, note);
  w.accept(Psn{3}, false, true, note);
  w.accept(Psn{2}, false, true, note);
  CHECK(messages.size() == 1);
  w.accept(Psn{0}, true, true, note);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> want{
      {0xFFFFFE, 0xFFFFFF}, {0, 0}, {1, 1}, {2, 4}};
  CHECK(messages == want);
}

}  // namespace receive_window_test
