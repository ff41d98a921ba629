// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/faults.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/errors.hpp"
#include "support/sim_rig.hpp"

using namespace mrc;
using namespace mrc::sim;
using mrc::test::contains;
using namespace std::chrono_literals;

namespace faults_test {

/// Hears of link states and swallows packets.
struct Ear : Node {
  Network& network;
  unsigned changes = 0;
  explicit Ear(Network& n) : network(n) {}
  void on_packet(LinkId, PacketId packet) override { network.drop(packet, PacketFate::arrived); }
  void on_link_state(LinkId, bool) override { ++changes; }
};

struct FaultsRig : test::FabricRig<Ear> {
  explicit FaultsRig(Topology topology = Topology::clos) : FabricRig(settings(topology)) {}
  static FabricSettings settings(Topology topology) {
    FabricSettings s = test::small_clos(8);
    s.topology = topology;
    return s;
  }
  void apply(std::string_view text) { FaultSchedule::parse(text).apply(network, *fabric); }
  const Link& at(Duration when, std::string_view link) {
    network.run_until(Time{when});
    return network[fabric->find(link).front()];
  }
};

/// The message of the error that parsing ends with.
std::string refused(std::string_view text) {
  try {
    (void)FaultSchedule::parse(text);
  } catch (const Error& e) {
    CHECK(e.code() == Errc::invalid_argument);
    return e.what();
  }
  return "accepted";
}
std::string not_applied(std::string_view text) {
  FaultsRig rig;
  try {
    rig.apply(text);
  } catch (const Error& e) {
    CHECK(rig.network.idle());  // nothing was planned
    return e.what();
  }
  return "accepted";
}

TEST_CASE("faults: both names of a switch are one target") {
  FaultsRig rig;
  rig.apply("10us down t1.0.2; 20us up p0t1-2");
  CHECK_FALSE(rig.at(10us, "p0t0-1>p0t1-2").up);
  CHECK(rig.at(20us, "p0t0-1>p0t1-2").up);
  CHECK(FaultSchedule::parse("1us down t1.0.2").text() == "1us down p0t1-2");
}

TEST_CASE("faults: a link is up only when nothing holds it down") {
  FaultsRig rig;
  rig.apply("10us down p0t1-2; 20us down p0; 30us up p0t1-2; 40us up p0");
  CHECK(rig.at(9us, "p0t0-1>p0t1-2").up);
  CHECK_FALSE(rig.at(10us, "p0t0-1>p0t1-2").up);
  CHECK(rig.at(10us, "p0t0-1>p0t1-1").up);
  CHECK_FALSE(rig.at(20us, "p0t0-1>p0t1-1").up);
  CHECK_FALSE(rig.at(30us, "p0t0-1>p0t1-2").up);  // its plane is down still
  CHECK(rig.at(40us, "p0t0-1>p0t1-2").up);
  CHECK(rig.at(40us, "h3.p0>p0t0-0").up);
  CHECK(rig.hosts[3]->changes == 4);  // both directions of its port, once down and once up
}

TEST_CASE("faults: what went down twice comes up with the second end") {
  FaultsRig rig;
  rig.apply("10us down h1.p1 for 30us; 20us down h1.p1 for 10us");
  CHECK_FALSE(rig.at(30us, "h1.p1>p1t0-0").up);
  CHECK_FALSE(rig.at(39us, "p1t0-0>h1.p1").up);
  CHECK(rig.at(40us, "p1t0-0>h1.p1").up);
  CHECK(rig.hosts[1]->changes == 4);
}

TEST_CASE("faults: one direction of a cable") {
  FaultsRig rig;
  rig.apply("1us down p1t0-0>p1t1-2 for 1us");
  CHECK_FALSE(rig.at(1us, "p1t0-0>p1t1-2").up);
  CHECK(rig.at(1us, "p1t1-2>p1t0-0").up);
  CHECK(rig.at(2us, "p1t0-0>p1t1-2").up);
}

TEST_CASE("faults: rates of several causes combine, and each end takes its own away") {
  FaultsRig rig;
  rig.apply(
      "1us loss p0t0-0 0.5; 2us loss h0.p0 0.5; 3us black_hole p0; 4us loss p0t0-0 0;"
      "5us heal p0; 6us loss h0.p0 0");
  const char* link = "h0.p0>p0t0-0";
  CHECK(rig.at(1us, link).loss == doctest::Approx(0.5));
  CHECK(rig.at(2us, link).loss == doctest::Approx(0.75));
  CHECK(rig.at(3us, link).loss == 1);
  CHECK(rig.at(3us, link).up);  // nobody notices
  CHECK(rig.at(4us, link).loss == 1);
  CHECK(rig.at(5us, link).loss == doctest::Approx(0.5));
  CHECK(rig.at(6us, link).loss == 0);
  CHECK(rig.hosts[0]->changes == 0);
}

TEST_CASE("faults: corruption, and the slowest rate rules") {
  FaultsRig rig;
  rig.apply(
      "1us slow p0t0-0 4 for 4us; 2us slow h0.p0 10 for 1us; 1us corruption h0 0.25 for 2us;"
      "1us slow h0.p0 2 for 9us");
  const char* link = "p0t0-0>h0.p0";
  const std::int64_t full = rig.at(0us, link).fs_per_byte;
  CHECK(rig.at(1us, link).fs_per_byte == 4 * full);
  CHECK(rig.at(1us, link).corruption == doctest::Approx(0.25));
  CHECK(rig.at(2us, link).fs_per_byte == 10 * full);
  CHECK(rig.at(3us, link).fs_per_byte == 4 * full);
  CHECK(rig.at(3us, link).corruption == 0);
  CHECK(rig.at(5us, link).fs_per_byte == full);
}

TEST_CASE("faults: flaps") {
  FaultSchedule schedule;
  schedule.flap("h2.p0", Time{10us}, Time{50us}, 20us, 15us);
  CHECK(schedule.text() == "10us down h2.p0; 25us up h2.p0; 30us down h2.p0; 45us up h2.p0");
  CHECK(FaultSchedule::parse("10us flap h2.p0 50us 20us 15us").faults() == schedule.faults());
  // The last time is cut short.
  CHECK(FaultSchedule::parse("0us flap h2.p0 25us 20us 15us").last() == Time{25us});
  CHECK_THROWS_AS(schedule.flap("h2.p0", Time{0us}, Time{5us}, 2us, 2us), Error);
  CHECK_THROWS_AS(schedule.flap("h2.p0", Time{5us}, Time{5us}, 2us, 1us), Error);
}

TEST_CASE("faults: text and schedule are the same") {
  const std::string text =
      "0ns down p1t0-0-p1t1-1; 1500ns loss h3.p0>p0t0-0 0.015; 20us slow p1 2.5; 1ms kill h3; "
      "2ms black_hole p0t1-1; 3s heal p0t1-1";
  const FaultSchedule schedule = FaultSchedule::parse(text);
  CHECK(schedule.text() == text);
  CHECK(FaultSchedule::parse(schedule.text()).faults() == schedule.faults());
  CHECK(FaultSchedule::parse("# none\n ; 1.5us down h1 # late\n\n0.5us down h2\n").text() ==
        "500ns down h2; 1500ns down h1");
}

TEST_CASE("faults: errors name the word and what is allowed") {
  CHECK(contains(refused("1us down h1; 20xs down h1"), "entry 2 '20xs' should be a time, such as"));
  CHECK(contains(refused("-1us down h1"), "'-1us' should be a time"));
  CHECK(contains(refused("1us broken h1"), "'broken' should be one of flap, down, up, black_hole"));
  CHECK(contains(refused("1us down"), "entry 1 ends where a target should follow"));
  CHECK(contains(refused("1us loss h1 much"), "'much' should be a number"));
  CHECK(contains(refused("1us loss h1 1.5"), "'1us loss h1 1.5': the probability must be 0 to 1"));
  CHECK(contains(refused("1us slow h1 0.5"), "the factor must be 1 to"));
  CHECK(contains(refused("1us down h1 until 3us"), "'until' should be 'for'"));
  CHECK(contains(refused("1us down h1 for 3us more"), "'more' should be the entry's end"));
  CHECK(contains(refused("1us kill h1 for 3us"), "'1us kill h1' can't be for a span"));
  CHECK(contains(refused("1us flap h1 5ms 1us 2us"), "less than its period"));
}

TEST_CASE("faults: schedules that do not fit the fabric are refused as a whole") {
  CHECK(contains(not_applied("1us down h1; 2us down p0t1-9"), "nothing is called 'p0t1-9'"));
  CHECK(contains(not_applied("1us down h1; 2us up h1.p0"), "'2us up h1.p0' ends what has not"));
  CHECK(contains(not_applied("1us heal h1"), "ends what has not begun"));
  CHECK(contains(not_applied("1us kill h1"), "these hosts can't be killed"));
}

TEST_CASE("faults: killed hosts") {
  FaultsRig rig;
  std::vector<unsigned> killed;
  FaultSchedule::parse("1us kill h3; 2us kill h0").apply(rig.network, *rig.fabric, [&](unsigned h) {
    killed.push_back(h);
  });
  rig.network.run_until(Time{1us});
  CHECK(killed == std::vector<unsigned>{3});
  rig.network.run_until(Time{2us});
  CHECK(killed == std::vector<unsigned>{3, 0});
  try {
    FaultSchedule::parse("1us kill p0t0-0").apply(rig.network, *rig.fabric, [](unsigned) {});
    FAIL("a switch was killed");
  } catch (const Error& e) {
    CHECK(contains(e.what(), "only hosts can be killed"));
  }
}

TEST_CASE("fault swarm: a seed gives its schedule, within the limits") {
  SwarmOptions options;
  options.begin = Time{5us};
  options.end = Time{3ms};
  options.kills = true;
  std::set<std::string> different;
  std::array<unsigned, 8> seen{};
  unsigned without_loss = 0;
  for (const Topology topology : {Topology::clos, Topology::single_switch, Topology::dumbbell}) {
    const FaultsRig rig(topology);
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const FaultSchedule s = random_faults(*rig.fabric, options, seed);
      CHECK(s.faults() == random_faults(*rig.fabric, options, seed).faults());
      different.insert(s.text());
      bool loss = false;
      for (const Fault& f : s.faults()) {
        ++seen[static_cast<std::size_t>(f.kind)];
        loss |= f.kind == FaultKind::loss;
        CHECK(f.at >= options.begin);
        CHECK(f.at <= options.end);
      }
      without_loss += !loss && s.faults().size() > 8;
      CHECK(FaultSchedule::parse(s.text()).faults() == s.faults());
    }
  }
  CHECK(different.size() > 150);
  for (const unsigned n : seen) CHECK(n > 0);
  CHECK(without_loss > 20);  // kinds are turned off
}

TEST_CASE("fault swarm: when it is over, the fabric is as it was") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FaultsRig rig;
    SwarmOptions options;
    options.end = Time{2ms};
    const FaultSchedule s = random_faults(*rig.fabric, options, seed);
    INFO("seed ", seed, ": ", s.text());
    s.apply(rig.network, *rig.fabric);
    rig.network.run_until(Time{2ms});
    for (const Link& link : rig.network.links()) {
      CHECK(link.up);
      CHECK(link.loss == 0);
      CHECK(link.corruption == 0);
      CHECK(link.slow == 1);
    }
  }
}

}  // namespace faults_test
