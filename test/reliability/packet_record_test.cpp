// SPDX-License-Identifier: Apache-2.0
// Where the short fields of a packet record end: time, place in the send order, links.
#include "mrc/engine/send_window.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "mrc/core/random.hpp"

using namespace mrc;
using namespace mrc::reliability;
using namespace std::chrono_literals;

namespace packet_record_test {

const auto kIgnore = [](Psn, Packet) {};

/// A window at a PSN that wraps soon.
struct Rig {
  explicit Rig(std::uint32_t limit, Psn start = Psn{0xFFFFC0}) : pool(limit), window(pool, limit) {
    window.start(start);
  }
  Psn send(Time now = Time{}) {
    const Psn psn = window.next();
    REQUIRE(window.append(now, 7, 1000));
    return psn;
  }
  void send_again(Psn psn, Time now = Time{}) {
    window.lose(psn);
    window.resend(psn, now, 8);
  }
  [[nodiscard]] std::vector<Psn> in_send_order() {
    std::vector<Psn> all;
    for (SendOrder walk(window); !walk.done(); walk.advance()) all.push_back(walk.psn());
    return all;
  }
  PacketPool pool;
  SendWindow window;
};

TEST_CASE("packet record: the time it was sent, exact while a chunk's lie within a second") {
  const Time start{5min};
  Rig rig(128);
  std::vector<Psn> psns;
  for (unsigned i = 0; i < 64; ++i) psns.push_back(rig.send(start + i * 15'873'015ns));
  for (unsigned i = 0; i < 64; ++i)
    CHECK(rig.window.at(psns[i]).sent() == start + i * 15'873'015ns);
  // The base moves; what was sent during the second before is exact all the same.
  const Time later = start + 1500ms;
  rig.send_again(psns[40], later);
  CHECK(rig.window.at(psns[40]).sent() == later);
  CHECK(rig.window.at(psns[50]).sent() == start + 50 * 15'873'015ns);
}

TEST_CASE("packet record: silent for hours, it keeps its time when nothing is sent beside it") {
  Rig rig(128);
  const Psn psn = rig.send(Time{1s});
  for (unsigned i = 1; i < 64; ++i) rig.send(Time{1s});
  for (unsigned i = 0; i < 64; ++i) rig.send(Time{24h});  // of another chunk
  CHECK(rig.window.at(psn).sent() == Time{1s});
}

TEST_CASE("packet record: silent for hours, it never looks younger than a second") {
  Rig rig(64);
  const Psn silent = rig.send(Time{1s}), other = rig.send(Time{1s});
  Random random(1);
  Time now{1s};
  while (now < Time{2h}) {
    now += Duration{1 + random.below(2'000'000'000)};
    rig.send_again(other, now);
    REQUIRE(rig.window.at(other).sent() == now);
    const Duration age = now - rig.window.at(silent).sent();
    REQUIRE(age >= std::min<Duration>(now - Time{1s}, kOldestSent));
    REQUIRE(age <= now - Time{1s});
  }
  // So it is lost when a report says so, however long ago it was sent.
  rig.window.at(silent).set_missed(Missed::absent);
  rig.window.report(other, kIgnore);
  std::vector<Psn> lost;
  infer_losses(rig.window, now, {.age = 400ms}, [&](Psn psn, Packet) { lost.push_back(psn); });
  CHECK(lost == std::vector<Psn>{silent});
}

TEST_CASE("packet record: a packet that others pass for ever stays the oldest in send order") {
  Rig rig(64);
  const Psn silent = rig.send(), sent_again = rig.send();
  rig.send_again(sent_again);  // one that stays silent of either kind
  const Psn busy = rig.send();
  const std::uint32_t silent_order = rig.window.order_of(rig.window.at(silent));
  for (unsigned i = 0; i < 300'000; ++i) {
    rig.send_again(busy);
    if (i % 1000 != 0) continue;
    REQUIRE(rig.in_send_order() == std::vector<Psn>{silent, sent_again, busy});
    REQUIRE(rig.window.order_of(rig.window.at(busy)) == rig.window.send_order() - 1);
    const std::uint32_t behind =
        rig.window.send_order() - rig.window.order_of(rig.window.at(silent));
    if (i < 40'000) REQUIRE(rig.window.order_of(rig.window.at(silent)) == silent_order);
    if (i > 60'000) REQUIRE(behind > 32'768);  // than a window holds: something must have arrived
    REQUIRE(rig.window.reports_after(silent, 0) > 0);
    REQUIRE(rig.window.reports_after(sent_again, 1) > 0);
  }
  rig.window.on_probe_answered(rig.window.send_order());
  CHECK(rig.window.probed_after(rig.window.order_of(rig.window.at(silent))));
  CHECK(rig.window.at(busy).transmissions() == kManyTransmissions);
}

TEST_CASE("packet record: the widest window, all of it sent again in any order, and recycled") {
  for (const std::uint32_t slots : {4'096u, 32'768u}) {
    Rig rig(slots);
    Random random(slots);
    for (unsigned round = 0; round < 3; ++round) {
      std::vector<Psn> all;
      for (std::uint32_t i = 0; i < slots; ++i) all.push_back(rig.send());
      CHECK_FALSE(rig.window.open(slots + 1));
      for (const Psn psn : all) {
        REQUIRE(rig.window.at(psn).first_try());
        REQUIRE(rig.window.at(psn).transmissions() == 1);
        REQUIRE(rig.window.at(psn).missed() == Missed::unknown);
      }
      CHECK(rig.in_send_order() == all);
      random.shuffle(std::span(all));
      for (const Psn psn : all) rig.send_again(psn);
      CHECK(rig.in_send_order() == all);
      for (const Psn psn : all) rig.window.at(psn).set_missed(Missed::passed);
      for (std::uint32_t i = 0; i < slots / 2; ++i) rig.window.report(all[i], kIgnore);
      all.erase(all.begin(), all.begin() + slots / 2);
      CHECK(rig.in_send_order() == all);
      for (const Psn psn : all) rig.window.lose(psn);
      CHECK(rig.window.lost() == slots / 2);
      rig.window.acknowledge(rig.window.next() - 1, kIgnore);
      CHECK(rig.window.lost() + rig.window.outstanding() == 0);
      CHECK(rig.pool.free_chunks() == rig.pool.chunk_count());
    }
  }
}

TEST_CASE("packet record: largest path and size; a first try that did not take place") {
  Rig rig(64);
  const Psn psn = rig.window.next();
  REQUIRE(rig.window.append(Time{1s}, 0x7FFF, 0xFFFF));
  CHECK(rig.window.at(psn).path() == 0x7FFF);
  CHECK(rig.window.at(psn).size() == 0xFFFF);
  for (unsigned i = 0; i < 2; ++i) {
    rig.window.unsend(psn);
    CHECK(rig.window.at(psn).state() == PacketState::lost);
    CHECK(rig.window.at(psn).transmissions() == 0);
    rig.window.resend(psn, Time{2s}, 1);
    CHECK(rig.window.at(psn).state() == PacketState::outstanding);
    CHECK(rig.window.at(psn).transmissions() == 1);
    CHECK_FALSE(rig.window.at(psn).first_try());
  }
}

TEST_CASE("packet record: a retransmission that did not take place leaves the packet ambiguous") {
  Rig rig(64);
  const Psn psn = rig.window.next();
  REQUIRE(rig.window.append(Time{1s}, 7, 100));
  rig.window.lose(psn);
  for (const std::uint32_t transmissions : {2u, 3u, 3u}) {
    rig.window.resend(psn, Time{2s}, 8);
    rig.window.unsend(psn);
    CHECK(rig.window.at(psn).state() == PacketState::lost);
    CHECK(rig.window.at(psn).transmissions() == transmissions);
  }
}

}  // namespace packet_record_test
