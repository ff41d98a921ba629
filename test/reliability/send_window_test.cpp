// SPDX-License-Identifier: Apache-2.0
#include "mrc/engine/send_window.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "mrc/core/random.hpp"

using namespace mrc;
using namespace mrc::reliability;

namespace send_window_test {

constexpr std::uint32_t kPsns = 1u << 24;
constexpr std::uint32_t kMaxPath = 0x7FFF;

/// The same window as a plain list of packets and a plain list of transmissions.
class WindowModel {
 public:
  struct Packet {
    Psn psn;
    PacketState state = PacketState::outstanding;
    std::uint32_t order = 0;
    std::uint16_t path = 0;
    std::uint32_t size = 0;
    Time sent{};
    unsigned transmissions = 0;
  };
  std::deque<Packet> packets;
  std::uint32_t next_order = 0;

  Packet& at(Psn psn) { return packets[static_cast<std::size_t>(psn - packets.front().psn)]; }
  [[nodiscard]] std::vector<Packet> in(PacketState s) const {
    std::vector<Packet> found;
    for (const Packet& p : packets)
      if (p.state == s) found.push_back(p);
    return found;
  }
  [[nodiscard]] std::vector<Packet> in_send_order() const {
    auto open = in(PacketState::outstanding);
    std::sort(open.begin(), open.end(), [](auto& a, auto& b) { return a.order < b.order; });
    return open;
  }
  /// Transmissions after the `i`th in send order, less those that are outstanding.
  [[nodiscard]] std::uint32_t reports_after(const std::vector<Packet>& order,
                                            std::uint32_t i) const {
    return next_order - order[i].order - static_cast<std::uint32_t>(order.size() - i);
  }
};

/// A window and its model under the same random operations.
class Fixture {
 public:
  Fixture(std::uint32_t limit, std::uint32_t range, Psn first, std::uint64_t seed)
      : random(seed), range_(range), pool(limit + 2 * kRecordsPerChunk), window(pool, limit) {
    window.start(first);
  }

  void step() {
    now += Duration{137};
    switch (random.below(9)) {
      case 0:
      case 1:
      case 2:
        return send_new();
      case 3:
        return retransmit();
      case 4:
        return report();
      case 5:
        return acknowledge();
      case 6:
        return lose();
      case 7:
        return report_bitmap();
      default:
        return unsend();
    }
  }
  void compare() {
    REQUIRE(window.span() == model.packets.size());
    REQUIRE(window.empty() == model.packets.empty());
    REQUIRE(window.outstanding() == model.in(PacketState::outstanding).size());
    const auto lost = model.in(PacketState::lost);
    REQUIRE(window.lost() == lost.size());
    if (!lost.empty()) REQUIRE(window.first_lost() == lost.front().psn);
    const auto first = std::find_if(model.packets.begin(), model.packets.end(), [](auto& p) {
      return p.state == PacketState::outstanding || p.state == PacketState::lost;
    });
    REQUIRE(window.first_unreported() ==
            (first != model.packets.end() ? first->psn : window.next()));
    compare_order();
    for (const auto& p : model.packets) {
      const Packet packet = window.at(p.psn);
      REQUIRE(packet.state() == p.state);
      REQUIRE(packet.transmissions() == std::min(p.transmissions, kManyTransmissions));
      if (p.state == PacketState::outstanding) REQUIRE(window.order_of(packet) == p.order);
      if (p.transmissions == 0) continue;
      REQUIRE(packet.path() == p.path);
      REQUIRE(packet.sent() == p.sent);
      if (packet.first_try()) REQUIRE(packet.size() == p.size);
    }
  }
  void compare_order() {
    const std::vector<WindowModel::Packet> order = model.in_send_order();
    SendOrder walk(window);
    for (std::uint32_t i = 0; i < order.size(); ++i, walk.advance()) {
      REQUIRE_FALSE(walk.done());
      REQUIRE(walk.psn() == order[i].psn);
      REQUIRE(window.reports_after(walk.psn(), i) == model.reports_after(order, i));
    }
    REQUIRE(walk.done());
  }

  Random random;
  std::uint32_t range_;
  PacketPool pool;
  SendWindow window;
  WindowModel model;
  Time now{std::chrono::hours(1)};
  std::uint64_t wraps = 0;

 private:
  void transmit(WindowModel::Packet& p) {
    p.order = model.next_order++;
    p.path = static_cast<std::uint16_t>(kMaxPath - random.below(100));
    p.size = 0xFFFF - p.path % 1000u;
    p.sent = now;
    ++p.transmissions;
    p.state = PacketState::outstanding;
  }
  void send_new() {
    const Psn psn = window.next();
    const bool open = model.packets.size() < range_;
    REQUIRE(window.open(range_) == open);
    if (!open) return;
    if (psn.value() == 0) ++wraps;
    WindowModel::Packet& p = model.packets.emplace_back(WindowModel::Packet{psn});
    transmit(p);
    REQUIRE(window.append(now, p.path, p.size));  // the pool never runs out here
  }
  void retransmit() {
    if (window.lost() == 0) return;
    WindowModel::Packet& p = model.at(window.first_lost());
    transmit(p);
    window.resend(p.psn, now, p.path);
  }
  WindowModel::Packet* any() {
    if (model.packets.empty()) return nullptr;
    return &model.packets[random.below(static_cast<std::uint32_t>(model.packets.size()))];
  }
  void report() {
    WindowModel::Packet* const p = any();
    if (p == nullptr) return;
    const PacketState before = p->state;
    unsigned calls = 0;
    window.report(p->psn, [&](Psn psn, Packet packet) {
      ++calls;
      REQUIRE(psn == p->psn);
      REQUIRE(packet.state() == before);
    });
    REQUIRE(calls == (before == PacketState::reported ? 0 : 1));
    p->state = PacketState::reported;
  }
  /// Some of 64 packets, which may begin before the window and end behind it.
  void report_bitmap() {
    if (model.packets.empty()) return;
    const Psn base = any()->psn + (static_cast<std::int32_t>(random.below(100)) - 70);
    std::uint64_t bits = random.next() & random.next();
    if (random.below(4) == 0) bits = ~std::uint64_t{0};
    std::vector<Psn> news, expected;
    for (WindowModel::Packet& p : model.packets) {
      const std::int32_t bit = p.psn - base;
      if (bit < 0 || bit >= 64 || (bits >> bit & 1) == 0) continue;
      if (p.state != PacketState::reported) expected.push_back(p.psn);
      p.state = PacketState::reported;
    }
    window.report(base, bits, [&](Psn psn, Packet) { news.push_back(psn); });
    REQUIRE(news == expected);
  }
  void acknowledge() {
    if (model.packets.empty()) return;
    const std::uint32_t n = 1 + random.below(static_cast<std::uint32_t>(model.packets.size()));
    std::vector<Psn> news, expected;
    const Psn cack = model.packets[n - 1].psn;
    for (std::uint32_t i = 0; i < n; ++i) {
      const WindowModel::Packet& p = model.packets.front();
      if (p.state != PacketState::reported) expected.push_back(p.psn);
      model.packets.pop_front();
    }
    window.acknowledge(cack, [&](Psn psn, Packet) { news.push_back(psn); });
    REQUIRE(news == expected);
    REQUIRE(window.unacked() == cack + 1);
  }
  void lose() {
    WindowModel::Packet* const p = any();
    if (p == nullptr) return;
    window.lose(p->psn);
    if (p->state == PacketState::outstanding) p->state = PacketState::lost;
  }
  void unsend() {
    WindowModel::Packet* const p = any();
    if (p == nullptr) return;
    window.unsend(p->psn);
    if (p->state != PacketState::outstanding) return;
    p->state = PacketState::lost;
    if (p->transmissions == 1) p->transmissions = 0;  // else which copy arrives is unknown
    for (auto& other : model.packets)
      if (other.order > p->order) --other.order;
    --model.next_order;
  }
};

TEST_CASE("send window: a naive model agrees after every operation, across the PSN wrap") {
  const std::uint32_t limits[] = {1, 64, 100, 128, 256};
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed ", seed);
    const std::uint32_t limit = limits[seed % 5];
    // A range of all slots makes the newest packets share the oldest ones' chunk.
    const std::uint32_t slots = std::max(64u, std::bit_ceil(limit));
    const std::uint32_t range = seed % 2 == 0 ? slots : std::max(1u, limit / 2);
    Fixture f(limit, range, Psn{kPsns - 200}, seed);
    for (unsigned i = 0; i < 2000; ++i) {
      f.step();
      f.compare();
    }
    CHECK((f.wraps == 1 || limit == 1));
  }
}

TEST_CASE("send window: all chunks return, whatever the order of acknowledgements") {
  PacketPool pool(128 + 64);
  {
    SendWindow window(pool, 128);
    const std::size_t all = pool.free_chunks();
    Random random(3);
    for (unsigned round = 0; round < 500; ++round) {
      if (window.empty()) window.start(Psn{static_cast<std::uint32_t>(random.next())});
      const std::uint32_t n = random.below(129 - window.span());
      for (std::uint32_t i = 0; i < n; ++i) {
        REQUIRE(window.append(Time{}, 0, 100));
      }
      if (window.empty()) continue;
      const std::uint32_t take = random.below(window.span() + 1);
      window.acknowledge(window.unacked() + static_cast<std::int32_t>(take) - 1,
                         [](Psn, Packet) {});
      const std::size_t used = all - pool.free_chunks();
      REQUIRE(used * kRecordsPerChunk >= window.span());
      REQUIRE(used <= 2 + (window.empty() ? 0u : 1u));
      if (window.empty()) REQUIRE(used == 0);
    }
    REQUIRE(window.append(Time{}, 0, 100));
    REQUIRE(pool.free_chunks() < all);
  }
  CHECK(pool.free_chunks() == pool.chunk_count());  // the destructor gave back the rest
}

TEST_CASE("send window: an empty pool closes it, and a freed chunk opens it again") {
  PacketPool pool(64);
  SendWindow a(pool, 128), b(pool, 128);
  a.start(Psn{0});
  b.start(Psn{0});
  for (unsigned i = 0; i < 64; ++i) {
    REQUIRE(a.append(Time{}, 0, 100));
  }
  CHECK_FALSE(a.append(Time{}, 0, 100));
  CHECK(a.span() == 64);
  CHECK_FALSE(b.append(Time{}, 0, 100));
  CHECK(b.empty());
  a.acknowledge(Psn{63}, [](Psn, Packet) {});
  CHECK(b.append(Time{}, 0, 100));
}

TEST_CASE("send window: a probe that was answered overtook what was sent before it") {
  PacketPool pool(64);
  SendWindow w(pool, 64);
  w.start(Psn{10});
  REQUIRE(w.append(Time{}, 0, 100));
  const std::uint32_t place = w.send_order();
  REQUIRE(w.append(Time{}, 0, 100));
  CHECK(w.reports_after(SendOrder(w).psn(), 0) == 0);
  w.on_probe_answered(place);
  CHECK(w.reports_after(SendOrder(w).psn(), 0) == 1);
  w.lose(Psn{10});
  CHECK(SendOrder(w).psn() == Psn{11});
  CHECK(w.reports_after(SendOrder(w).psn(), 0) == 0);  // sent after the probe
}

TEST_CASE("send window: a bitmap's bits are news again when other packets have the records") {
  PacketPool pool(128);
  SendWindow w(pool, 128);
  w.start(Psn{0});
  for (unsigned i = 0; i < 128; ++i) REQUIRE(w.append(Time{}, 0, 100));
  w.acknowledge(Psn{0}, [](Psn, Packet) {});
  REQUIRE(w.append(Time{}, 0, 100));  // PSN 128, in the chunk of 1 .. 63
  w.report(Psn{3}, 0b11, [](Psn, Packet) {});
  w.acknowledge(Psn{10}, [](Psn, Packet) {});
  for (unsigned i = 0; i < 10; ++i) REQUIRE(w.append(Time{}, 0, 100));
  unsigned news = 0;
  w.report(Psn{128}, 0xFF, [&](Psn, Packet) { ++news; });
  CHECK(news == 8);
}

}  // namespace send_window_test
