// SPDX-License-Identifier: Apache-2.0
#include "mrc/control/profiles.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "fixture.hpp"
#include "mrc/fabric/usid.hpp"

namespace mrc::path::profile_test {
namespace {

using namespace testing;

std::string failure(const EvProfile& profile, Errc code = Errc::invalid_argument) {
  try {
    (void)make_plan(profile);
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "none";
}
bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  CAPTURE(part);
  return message.find(part) != std::string::npos;
}

EvProfile generated() {
  EvProfile p;
  p.mode = ProfileMode::generated;
  p.planes = 4;
  p.active = 16;
  p.backup = 8;
  p.format = {EvMode::stev, false, {{16}, {16}}};
  p.fields = {{16, 0x4000, 1, 6, 0x7}, {16, 0xC000, 0, 9, 0xF}};
  return p;
}

TEST_CASE("profile GENERATED: the field ranges, shuffled by seed, ports round robin [O-24]") {
  const EvProfile p = generated();
  const EvPlan plan = make_plan(p);
  REQUIRE(plan.universe.size() == 24);
  REQUIRE(plan.values.size() == 24);
  std::set<std::uint32_t> seen;
  bool sorted = true;
  for (std::size_t i = 0; i < 24; ++i) {
    const std::uint32_t ev = value(plan.universe[i].ev);
    CHECK(seen.insert(ev).second);
    CHECK((ev >> 16 >= 0x4001 && ev >> 16 <= 0x4006));
    CHECK(((ev & 0xFFFF) >= 0xC000 && (ev & 0xFFFF) <= 0xC009));
    CHECK(plan.universe[i].plane == i % 4);
    CHECK(plan.universe[i].port_path == i / 4);
    CHECK(get_bits(plan.values[i], 0, 32) == ev);
    sorted = sorted && (i == 0 || value(plan.universe[i - 1].ev) < ev);
  }
  CHECK_FALSE(sorted);
  CHECK(make_plan(p).universe == plan.universe);
  EvProfile other = p;
  other.seed = 1;
  CHECK(make_plan(other).universe != plan.universe);
  const PathSet set = make_path_set(plan, 1);
  CHECK((set.size() == 24 && set.active_count() == 16));
}

TEST_CASE("profile GENERATED: all values, or an error when there are not enough") {
  EvProfile p = generated();
  p.active = 60;
  p.backup = 0;
  std::set<Ev> all;
  for (const PathSpec& spec : make_plan(p).universe) all.insert(spec.ev);
  CHECK(all.size() == 60);
  p.denied = {Ev{0x4003C005}};
  CHECK(says(failure(p, Errc::no_resources), "only 59 EVs"));
  p.active = 56;
  for (const PathSpec& spec : make_plan(p).universe) CHECK(spec.ev != Ev{0x4003C005});
}

TEST_CASE("profile GENERATED: SRv6 EVs are named by their bits before expansion [O-17]") {
  EvProfile p = generated();
  p.format = {EvMode::srv6, false, {{32}, {16}, {16}, {16}}};
  p.fields = {{32, 0xFC000001, 0, 0, 0},
              {16, 0x1000, 0, 15, 0x0F00},
              {16, 0x2000, 0, 4095, 0x0FFF},
              {16, 0x3007, 0, 15, 0x0F00}};
  const EvPlan plan = make_plan(p);
  for (std::size_t i = 0; i < plan.universe.size(); ++i) {
    EvValue compact{};
    put_bits(compact, 0, 32, value(plan.universe[i].ev));
    CHECK(expand(compact, p.fields, p.format).value() == plan.values[i]);
  }
  p.fields[3] = {16, 0x3007, 0, 0xFFFF, 0xFFFF};
  CHECK(says(failure(p, Errc::no_resources), "number of mask bits is 32") == false);
  p.fields[1] = {16, 0x1000, 0, 0x1F, 0x1F00};
  CHECK(says(failure(p, Errc::no_resources), "number of mask bits is 33"));
}

TEST_CASE("profile EXPLICIT: the list in planes' turn, denied entries DENIED") {
  EvProfile p;
  p.mode = ProfileMode::explicit_;
  p.planes = 2;
  for (unsigned i = 0; i < 8; ++i)
    p.paths.push_back({Ev{100 + i}, static_cast<Plane>(i / 4), static_cast<std::uint16_t>(i % 4)});
  p.active = 4;
  p.denied = {Ev{101}};
  const EvPlan plan = make_plan(p);
  for (std::size_t i = 0; i < 8; ++i) CHECK(plan.universe[i].plane == i % 2);
  CHECK(plan.options.active == 4);
  const PathSet set = make_path_set(plan, 1);
  const PathIndex denied = set.find(Ev{101});
  CHECK(set.health(denied) == Health::denied);
  CHECK_FALSE(set.active(denied));  // a backup of its plane took the place
  CHECK(set.active_count() == 4);

  SUBCASE("counts") {
    p.active = 0;
    CHECK(make_plan(p).options.active == 8);
    p.backup = 2;
    CHECK(make_plan(p).options.active == 6);
    p.active = 4;
    CHECK(says(failure(p), "the list has 8"));
    p.active = 4294967295u;
    CHECK(says(failure(p), "the list has 8"));
    p.active = 3;
    p.backup = 0;
    CHECK(make_plan(p).options.active == 3);
  }
  SUBCASE("plane out of range") {
    p.paths[0].plane = 2;
    CHECK(says(failure(p), "paths[].plane is 2, must be below 2"));
  }
  SUBCASE("empty") {
    p.paths.clear();
    p.active = 0;
    CHECK(says(failure(p), "active is 0"));
  }
}

TEST_CASE("profile EXPLICIT: an EV that is listed several times has that weight") {
  EvProfile p;
  p.mode = ProfileMode::explicit_;
  p.planes = 2;
  for (unsigned i = 0; i < 8; ++i)  // 100 three times in plane 0, 200 .. 203 once each in plane 1
    p.paths.push_back({Ev{i >= 4 ? 196 + i : i < 3 ? 100u : 101u}, static_cast<Plane>(i / 4), 0});
  PathSet set = make_path_set(make_plan(p), 1);
  unsigned heavy = 0;
  for (unsigned i = 0; i < 800; ++i) heavy += set[set.select(kAllPlanes)].ev == Ev{100};
  CHECK(heavy == 300);
  // Copies are paths of their own: what is reported of one is not true of the others.
  set.on_timeout(set.find(Ev{100}), at(1ms));
  heavy = 0;
  for (unsigned i = 0; i < 700; ++i) heavy += set[set.select(kAllPlanes)].ev == Ev{100};
  CHECK((heavy > 150 && heavy < 250));
}

TEST_CASE("profile EXPLICIT: planes of unequal size") {
  EvProfile p;
  p.mode = ProfileMode::explicit_;
  p.planes = 3;
  const unsigned sizes[] = {5, 0, 2};
  for (unsigned plane = 0; plane < 3; ++plane)
    for (unsigned i = 0; i < sizes[plane]; ++i)
      p.paths.push_back({Ev{100 * plane + i}, static_cast<Plane>(plane), 0});
  const EvPlan plan = make_plan(p);
  std::vector<unsigned> order;
  for (const PathSpec& spec : plan.universe) order.push_back(spec.plane);
  CHECK(order == std::vector<unsigned>{0, 2, 0, 2, 0, 0, 0});
  PathSet set = make_path_set(plan, 1);
  CHECK(set.active_count() == 7);
  for (const unsigned n : counts(set, 700)) CHECK(n == 100);
  p.active = 4;  // equal shares as far as they go
  const PathSet four = make_path_set(make_plan(p), 1);
  unsigned of_plane_2 = 0;
  for (PathIndex i = 0; i < 7; ++i) of_plane_2 += four.active(i) && four[i].plane == 2;
  CHECK((four.active_count() == 4 && of_plane_2 == 2));
}

TEST_CASE("profile EXPLICIT: the paths of a uSID template") {
  UsidTemplate t;
  t.block = 0xFC000001;
  t.usids = {0x1000, 0x2000, 0x3000};
  t.plane = {8, 4};
  t.uplink = {0, 8};
  t.downlink = {0, 8};
  EvProfile p;
  p.mode = ProfileMode::explicit_;
  p.planes = 4;
  p.paths = t.paths(4, 16);
  p.active = 48;
  const PathSet set = make_path_set(make_plan(p), 1);
  CHECK((set.size() == 64 && set.active_count() == 48));
}

TEST_CASE("profile AUTO: about 128 paths, equal shares, distinct source ports") {
  for (const unsigned planes : {1u, 2u, 3u, 8u, 32u}) {
    CAPTURE(planes);
    EvProfile p;
    p.planes = planes;
    const EvPlan plan = make_plan(p);
    std::set<Ev> evs;
    std::vector<unsigned> share(planes);
    for (const PathSpec& spec : plan.universe) {
      CHECK(evs.insert(spec.ev).second);
      CHECK((value(spec.ev) >= 0xC000 && value(spec.ev) <= 0xFFFF));
      ++share[spec.plane];
    }
    for (const unsigned n : share) CHECK(n == share[0]);
    CHECK((plan.universe.size() >= 128 && plan.universe.size() < 128 + planes));
    CHECK(plan.options.active > 100);
    CHECK(make_path_set(plan, 1).active_count() == plan.options.active);
  }
  EvProfile few;
  few.active = 4;
  few.min_active = 2;
  const EvPlan plan = make_plan(few);
  CHECK((plan.universe.size() == 4 && plan.options.min_active == 2));
  few.active = 16385;
  CHECK(says(failure(few, Errc::no_resources), "only 16384 source ports"));
}

TEST_CASE("profile: errors name field, value and rule") {
  EvProfile p = generated();
  p.planes = 0;
  CHECK(says(failure(p), "planes is 0, allowed are 1 to 32"));
  p.planes = 33;
  CHECK(says(failure(p), "planes is 33"));
  p = generated();
  p.backup = 7;
  CHECK(says(failure(p), "backup is 7, must be a multiple of planes (4)"));
  p = generated();
  p.min_active = 17;
  CHECK(says(failure(p), "min_active is 17, but active is 16"));
  p = generated();
  p.event_mask = 8;
  CHECK(says(failure(p), "event_mask is 8"));
  p = generated();
  p.active = 0;
  CHECK(says(failure(p), "active is 0"));
  p = generated();
  p.active = 32768;
  CHECK(says(failure(p, Errc::no_resources), "the most is 32768"));
  p = generated();
  p.fields[0].max_val = 8;
  CHECK(says(failure(p), "do not fit the format"));
  p = generated();
  p.mode = static_cast<ProfileMode>(9);
  CHECK(says(failure(p), "mode is 9"));
}

TEST_CASE("sparse shuffle: a permutation, uniform at its front") {
  SparseShuffle shuffle(1000, 3);
  std::set<std::uint64_t> seen;
  while (!shuffle.empty()) CHECK(seen.insert(shuffle.next()).second);
  CHECK((seen.size() == 1000 && *seen.rbegin() == 999));
  std::vector<unsigned> first(16);
  for (std::uint64_t seed = 0; seed < 16'000; ++seed) {
    SparseShuffle s(16, seed);
    (void)s.next();
    ++first[s.next()];
  }
  for (const unsigned n : first) CHECK((n > 850 && n < 1150));
}

}  // namespace
}  // namespace mrc::path::profile_test
