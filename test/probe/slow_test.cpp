// SPDX-License-Identifier: Apache-2.0
#include "probe/slow.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "fixture.hpp"
#include "support/brief.hpp"

using namespace mrc::probe;
using namespace mrc::probe::testing;

namespace slow_test {

constexpr unsigned kRuns = mrc::test::kBrief ? 10 : 100;

/// 0 to 1.
double share(mrc::Random& random) {
  return random.below(1'000'001) / 1e6;
}

/// A fabric in which every link carries `usual` packets per second, but for some. A train shows
/// what the slowest link of its path carries, or less, because of other traffic and of programs
/// that read late.
struct Slowed {
  std::map<Part, double> rates;
  double usual = 6000;
  mrc::Random random{1};

  [[nodiscard]] double train(const ProbePath& path) {
    double rate = usual;
    for (const Part& part : path.there)
      if (const auto slow = rates.find(part); slow != rates.end())
        rate = std::min(rate, slow->second);
    rate *= 0.7 + 0.3 * share(random);
    if (random.chance(0.1)) rate *= 0.02 + 0.9 * share(random);
    return rate;
  }
};

/// What a host finds out by trains, as the program does.
Verdict look(const Description& d, Slowed& fabric, bool loops = true, bool hosts = true) {
  const PathMaker maker(d, 0);
  std::vector<ProbePath> paths = all_paths(maker);
  std::erase_if(paths,
                [&](const ProbePath& p) { return p.kind == PathKind::peer ? !hosts : !loops; });
  std::vector<PathLoad> loads(paths.size());
  const auto send = [&](std::size_t i) {
    for (unsigned n = 0; n < 6; ++n) loads[i].rates.push_back(fabric.train(paths[i]));
  };
  for (std::size_t i = 0; i < paths.size(); ++i) send(i);
  SecondLook more = second_look(maker, paths, results_of(compare_loads(paths, loads)));
  for (const std::size_t i : more.again) send(i);
  std::move(more.turns.begin(), more.turns.end(), std::back_inserter(more.detours));
  for (ProbePath& path : more.detours) {
    paths.push_back(std::move(path));
    loads.emplace_back();
    send(paths.size() - 1);
  }
  return judge_standings(paths, compare_loads(paths, loads));
}

std::string slow_parts(const Description& d, std::map<Part, double> rates, unsigned seed = 1) {
  Slowed fabric{std::move(rates), 6000, mrc::Random(seed)};
  return names_of(d, look(d, fabric).dead);
}

TEST_CASE("slow: a link at a twentieth of its rate is named, and its direction") {
  const Description d = make_fabric(4, 2, 2, 2);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto found = [&](const Part& part) { return slow_parts(d, {{part, 300}}, seed); };
    CHECK(found({PartKind::switch_link, 1, 0, 1}) == "link p1t0-0 - p1t1-1");
    CHECK(found({PartKind::switch_link, 1, 0, 1, Direction::up}) == "link p1t0-0 > p1t1-1");
    CHECK(found({PartKind::switch_link, 1, 0, 1, Direction::down}) == "link p1t1-1 > p1t0-0");
    CHECK(found({PartKind::switch_link, 1, 1, 0, Direction::up}) == "link p1t0-1 > p1t1-0");
    CHECK(found({PartKind::switch_link, 1, 1, 0, Direction::down}) == "link p1t1-0 > p1t0-1");
    CHECK(found({PartKind::host_link, 2, 1}) == "link h1 - p2t0-1");
    CHECK(found({PartKind::t1, 3, 0}) == "switch p3t1-0");
  }
}

TEST_CASE("slow: a whole plane, and what looks like it from a host") {
  const Description d = make_fabric(4, 2, 2, 2);
  Slowed fabric{{{{PartKind::plane, 2}, 300}}};
  const Verdict v = look(d, fabric);
  REQUIRE(v.dead.size() == 1);
  CHECK(v.dead[0].part == Part{PartKind::host_link, 2, 0});
  CHECK(v.dead[0].alike == std::vector<Part>{{PartKind::t0, 2, 0}, {PartKind::plane, 2}});
  // Half of the planes: those that are slow are no measure.
  const Description two = make_fabric(2, 2, 2, 2);
  CHECK(slow_parts(two, {{{PartKind::plane, 1}, 300}}) == "link h0 - p1t0-0");
  // The own link, towards the host: packets to others do not pass it.
  CHECK(slow_parts(d, {{{PartKind::host_link, 2, 0, 0, Direction::down}, 300}}) ==
        "link p2t0-0 > h0");
}

TEST_CASE("slow: two links at once; half of the rate is none") {
  const Description d = make_fabric(4, 2, 2, 2);
  CHECK(slow_parts(d, {{{PartKind::switch_link, 0, 0, 1}, 300},
                       {{PartKind::switch_link, 3, 1, 0, Direction::up}, 900}}) ==
        "link p0t0-0 - p0t1-1, link p3t0-1 > p3t1-0");
  CHECK(slow_parts(d, {{{PartKind::switch_link, 0, 0, 1}, 3000}}).empty());
}

TEST_CASE("slow: a host to which all paths are slow is no fault of the fabric") {
  const Description d = make_fabric(4, 2, 2, 4);
  Slowed fabric{{{{PartKind::host, 0, 1}, 300}}};
  CHECK(look(d, fabric).all_alive());
}

TEST_CASE("slow: a healthy fabric with traffic gets no verdict") {
  const Description d = make_fabric(4, 2, 2, 2);
  Slowed fabric;
  unsigned verdicts = 0;
  for (unsigned sweep = 0; sweep < 300; ++sweep)  // one every two seconds
    verdicts += !look(d, fabric).all_alive();
  CHECK(verdicts == 0);
}

TEST_CASE("slow: where switches choose, EVs that are slow") {
  const Description d = make_fabric(2, 2, 2, 4, R"("forwarding": "ecmp",)");
  std::vector<ProbePath> paths = all_paths(PathMaker(d, 0));
  std::vector<PathLoad> loads(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const bool slow = paths[i].plane == 1 && paths[i].to > 1 && paths[i].uplink % 3 == 0;
    loads[i].rates = {slow ? 300.0 : 6000.0};
  }
  const Verdict v = judge_standings(paths, compare_loads(paths, loads));
  CHECK(v.dead.empty());
  CHECK(v.dead_paths.size() == 2 * 6);
  CHECK(carried_rates(paths, loads, {PartKind::plane, 0}).here == doctest::Approx(6000));
}

TEST_CASE("slow: paths that nothing is known of say nothing") {
  const Description d = make_fabric(2, 2, 2, 2);
  const auto paths = all_paths(PathMaker(d, 0));
  CHECK(judge_standings(paths, compare_loads(paths, {})).all_alive());
  CHECK(compare_paces({}).empty());
  CHECK(compare_paces(std::vector<PathPace>{{1000, 0, 100}}) ==
        std::vector<Standing>{Standing::fine});
}

/// What a program meets on its paths in a second: spread evenly, round-trip times and marks as they
/// come; one path at a twentieth of the rate of its link.
struct Traffic {
  unsigned paths = 8;
  int slow = -1;
  double sent = 1500;
  bool marks = true;
  mrc::Random random{1};

  [[nodiscard]] std::vector<PathPace> second() {
    std::vector<PathPace> all;
    for (unsigned i = 0; i < paths; ++i) {
      const bool here = static_cast<int>(i) == slow;
      const double many = sent * (0.85 + 0.3 * share(random)) * (here ? 0.12 : 1);
      // Within a factor of three of the median, now and then more.
      double rtt = 5e6 * std::exp(2.2 * (share(random) - 0.5)) * (here ? 8 : 1);
      if (random.chance(0.05)) rtt *= 4;
      const double marked = marks ? (here ? 0.6 : 0.1 * share(random)) : 0;
      all.push_back({static_cast<std::uint64_t>(many), static_cast<std::uint64_t>(many * marked),
                     static_cast<std::uint64_t>(rtt)});
    }
    return all;
  }
};

/// Seconds until a path is called slow, and which; `most` and -1 if none is.
std::pair<unsigned, int> watch(Traffic traffic, unsigned most) {
  std::vector<StandingRecord> records(traffic.paths);
  for (unsigned s = 1; s <= most; ++s) {
    const auto standings = compare_paces(traffic.second());
    for (unsigned i = 0; i < traffic.paths; ++i) {
      records[i].add(standings[i]);
      if (records[i].standing() == Standing::slow) return {s, static_cast<int>(i)};
    }
  }
  return {most, -1};
}

TEST_CASE("slow: in a program's traffic a slow link is named within 10 s") {
  for (const bool marks : {true, false})
    for (unsigned seed = 0; seed < kRuns; ++seed) {
      const auto [seconds, which] = watch({8, 3, 1500, marks, mrc::Random(seed)}, 10);
      CHECK(which == 3);
    }
}

TEST_CASE("slow: in a program's traffic nothing is named in ten minutes of a healthy fabric") {
  for (unsigned seed = 0; seed < kRuns; ++seed)
    CHECK(watch({8, -1, 1500, true, mrc::Random(seed)}, 600).second == -1);
}

TEST_CASE("slow: paths that carry next to nothing, or all the same, are not slow") {
  CHECK(watch({8, 3, 60, true}, 60).second == -1);
  // A peer that everybody sends to: all queues are long.
  std::vector<PathPace> full(8, PathPace{500, 300, 90'000'000});
  for (const Standing standing : compare_paces(full)) CHECK(standing == Standing::fine);
  // A long queue alone, at the full rate; a low rate alone.
  full[2].rtt_ns *= 20;
  full[3].delivered = 100;
  full[3].marks = 60;
  for (const Standing standing : compare_paces(full)) CHECK(standing == Standing::fine);
}

TEST_CASE("slow: a record forgets what is over") {
  StandingRecord record;
  CHECK(record.standing() == Standing::unknown);
  for (unsigned i = 0; i < 4; ++i) record.add(Standing::slow);
  CHECK(record.standing() != Standing::slow);
  record.add(Standing::fine);
  record.add(Standing::slow);
  CHECK(record.standing() == Standing::slow);
  for (unsigned i = 0; i < 3; ++i) record.add(Standing::fine);
  CHECK(record.standing() == Standing::slow);
  for (unsigned i = 0; i < 3; ++i) record.add(Standing::fine);
  CHECK(record.standing() == Standing::fine);
  for (unsigned i = 0; i < 6; ++i) record.add(Standing::slow);
  for (unsigned i = 0; i < 6; ++i) record.add(Standing::unknown);
  CHECK(record.standing() == Standing::unknown);
}

}  // namespace slow_test
