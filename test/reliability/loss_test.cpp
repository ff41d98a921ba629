// SPDX-License-Identifier: Apache-2.0
#include "mrc/engine/send_window.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace mrc;
using namespace mrc::reliability;
using namespace std::chrono_literals;

namespace loss_test {

/// Packets 0 .. n-1, one per microsecond.
struct Sent {
  explicit Sent(std::uint32_t n) : pool(1024), window(pool, 1024) {
    window.start(Psn{0});
    for (std::uint32_t i = 0; i < n; ++i) {
      CHECK(window.append(Time{i * 1us}, 0, 1000));
    }
  }
  void report(std::uint32_t psn) {
    window.report(Psn{psn}, [](Psn, Packet) {});
  }
  /// A SACK said of every silent packet before `psn` that it has not come.
  void missing_before(std::uint32_t psn, Missed how) {
    for (std::uint32_t i = 0; i < psn; ++i) window.at(Psn{i}).set_missed(how);
  }
  std::vector<std::uint32_t> infer(Time now, LossRule rule) {
    if (rule.probed == Duration{}) rule.probed = rule.age;
    if (rule.passed_age == Duration{}) rule.passed_age = rule.age;
    std::vector<std::uint32_t> lost;
    again = infer_losses(window, now, rule, [&](Psn psn, Packet) { lost.push_back(psn.value()); });
    return lost;
  }
  PacketPool pool;
  SendWindow window;
  Time again = kNever;
};

using Lost = std::vector<std::uint32_t>;

TEST_CASE("loss: nothing is lost without a report of something sent later") {
  Sent s(10);
  CHECK(s.infer(Time{1h}, {.age = 1us}).empty());
  CHECK(s.again == kNever);
  s.report(0);  // sent before the others
  CHECK(s.infer(Time{1h}, {.age = 1us}).empty());
}

TEST_CASE("loss: the time that the sender did not run is not part of a packet's age") {
  Sent s(10);  // packet 9 after 9 us
  s.report(9);
  s.missing_before(9, Missed::absent);
  // It ran again after 1,000 us. Packet 0 is 35 us old, in its time, after 1,026.
  LossRule rule{.age = 20us, .stalled = 991us, .stalled_until = Time{1000us}};
  CHECK(s.infer(Time{1025us}, rule).empty());
  CHECK(s.again == Time{1026us});
  CHECK(s.infer(Time{1026us}, rule) == Lost{0});
  CHECK(s.infer(Time{1027us}, rule) == Lost{1});
  // Later, a packet sent long before the stall began was already old.
  rule.stalled = 5us;
  CHECK(s.infer(Time{1027us}, rule) == Lost{2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("loss: at once when passed on its path, however young") {
  Sent s(10);
  s.report(4);
  s.missing_before(4, Missed::absent);
  s.window.at(Psn{2}).set_missed(Missed::passed);
  CHECK(s.infer(Time{10us}, {.passed = 1, .age = 1h}) == Lost{2});
  CHECK(s.again == Time{1h});  // when packet 0, sent at 0, is no longer young
  // The mark is looked for once; what it did not reach then is left to its age.
  s.window.at(Psn{1}).set_missed(Missed::passed);
  CHECK(s.infer(Time{10us}, {.passed = 0, .age = 1h}).empty());
}

TEST_CASE("loss: the walk goes on past young packets to the one that was passed") {
  Sent s(300);
  s.report(299);
  s.missing_before(299, Missed::absent);
  s.window.at(Psn{250}).set_missed(Missed::passed);
  CHECK(s.infer(Time{300us}, {.passed = 1, .age = 1h}) == Lost{250});
}

TEST_CASE("loss: passed by a packet of another queue pair, with no later report of its own") {
  Sent s(10);
  s.report(0);
  s.missing_before(10, Missed::absent);
  s.window.at(Psn{3}).set_missed(Missed::passed);
  s.window.at(Psn{9}).set_missed(Missed::passed);
  CHECK(s.infer(Time{10us}, {.passed = 2, .age = 1h}) == Lost{3, 9});
}

TEST_CASE("loss: the next look is not later than what stands behind a young packet is due") {
  Sent s(5);
  s.report(4);
  s.missing_before(4, Missed::absent);
  s.window.at(Psn{0}).set_missed(Missed::unknown);  // no SACK has covered it: never due by itself
  s.window.at(Psn{1}).set_missed(Missed::passed);
  s.window.at(Psn{3}).set_missed(Missed::passed);
  // As its timer does it: at the time that the last look asked for, and only then.
  Lost lost;
  std::vector<Time> when;
  Time now{10us};
  for (unsigned looks = 0; now != kNever && looks < 100; ++looks) {
    for (const std::uint32_t psn : s.infer(now, {.age = 40us, .passed_age = 30us})) {
      lost.push_back(psn);
      when.push_back(now);
    }
    CHECK(s.again > now);
    now = s.again;
  }
  CHECK(now == kNever);
  CHECK(lost == Lost{1, 3, 2});
  CHECK(when == std::vector<Time>{Time{31us}, Time{33us}, Time{72us}});
}

TEST_CASE("loss: a packet that no SACK has covered is not missing, however old") {
  Sent s(4);
  s.report(3);
  CHECK(s.infer(Time{50us}, {.age = 40us}).empty());
  CHECK(s.again == Time{70us});
  CHECK(s.infer(Time{1h}, {.age = 40us}).empty());
  CHECK(s.again == kNever);  // a time that has passed would make a timer fire for ever
}

TEST_CASE("loss: at 1.75 times the age when only packets of other paths have arrived") {
  Sent s(4);
  s.report(3);
  s.missing_before(3, Missed::absent);
  CHECK(s.infer(Time{70us - 1ns}, {.age = 40us}).empty());
  CHECK(s.again == Time{70us});
  CHECK(s.infer(Time{70us}, {.age = 40us}) == Lost{0});
  CHECK(s.infer(Time{72us}, {.age = 40us}) == Lost{1, 2});
  CHECK(s.window.lost() == 3);
}

TEST_CASE("loss: an answered probe needs less age than packets that are absent") {
  Sent s(3);
  s.window.on_probe_answered(s.window.send_order());
  CHECK(s.infer(Time{20us - 1ns}, {.age = 50us, .probed = 20us}).empty());
  CHECK(s.again == Time{20us});
  CHECK(s.infer(Time{20us}, {.age = 50us, .probed = 20us}) == Lost{0});
  CHECK(s.again == Time{21us});
  // Sent after the probe: nothing is known of it.
  REQUIRE(s.window.append(Time{22us}, 0, 1000));
  CHECK(s.infer(Time{49us}, {.age = 50us, .probed = 20us}) == Lost{1, 2});
}

TEST_CASE("loss: what was passed and is not counted, at the age for that") {
  Sent s(4);
  s.report(3);
  s.missing_before(3, Missed::absent);
  s.window.at(Psn{1}).set_missed(Missed::passed);
  const LossRule rule{.age = 50us, .passed_age = 20us};
  CHECK(s.infer(Time{21us - 1ns}, rule).empty());
  CHECK(s.again <= Time{21us});
  CHECK(s.infer(Time{21us}, rule) == Lost{1});  // the others are only absent
}

TEST_CASE("loss: by send order, not by PSN") {
  Sent s(6);
  s.window.lose(Psn{0});
  s.window.resend(Psn{0}, Time{6us}, 1);  // the newest transmission now
  for (std::uint32_t i : {2u, 3u, 4u, 5u}) s.report(i);
  s.missing_before(2, Missed::absent);
  CHECK(s.infer(Time{8us}, {.age = 4us}) == Lost{1});
  CHECK(s.window.at(Psn{0}).state() == PacketState::outstanding);
}

}  // namespace loss_test
