// SPDX-License-Identifier: Apache-2.0
// The registry of profiles: states, arrays, and what changes mean for path sets (mrc-1.0 §7.7).
#include "mrc/control/profiles.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "mrc/core/random.hpp"
#include "support/errors.hpp"

namespace mrc::detail::profile_registry_test {
namespace {

using test::contains;
using enum ProfileState;

ProfileSurroundings surroundings(unsigned planes = 2) {
  ProfileSurroundings around;
  around.planes = planes;
  around.seed = 5;
  around.check_ev = [](path::EvMode, const ExpandedEv& ev) {
    if (value(ev.name) == 0xDEAD) throw Error(Errc::unsupported, "no such path");
  };
  return around;
}

ProfileEv ev(std::uint32_t name, unsigned port = 1) {
  ProfileEv out;
  path::put_bits(out.value, 0, 16, name);
  out.port = static_cast<std::uint8_t>(port);
  return out;
}
EvOperation replace(const ProfileEv& old, const ProfileEv& with, EvState state = EvState::good,
                    bool all = false) {
  return {EvOperation::Kind::replace, old, with, state, all};
}
EvOperation set_state(const ProfileEv& which, EvState state, bool all = false) {
  return {EvOperation::Kind::set_state, which, {}, state, all};
}

void make_format(ProfileRegistry& r, ProfileId id = 1, path::EvMode mode = path::EvMode::udp,
                 std::vector<path::FormatField> fields = {{16}}) {
  r.change_format(id, {offline, mode, {}});
  r.change_format(id, {online, {}, std::move(fields)});
}
EvProfileChange offline_change(EvProfileMode mode, std::uint32_t count, ProfileId format = 1) {
  EvProfileChange change;
  change.state = offline;
  change.mode = mode;
  change.format = format;
  change.ev_count = count;
  return change;
}
EvProfileChange online_change() {
  EvProfileChange change;
  change.state = online;
  change.min_active = 1;
  change.event_mask = 3;
  return change;
}
EvProfileChange operations(std::vector<EvOperation> ops) {
  EvProfileChange change;
  change.operations = std::move(ops);
  return change;
}
EvProfileChange to(ProfileState state) {
  EvProfileChange change;
  change.state = state;
  return change;
}
/// Without an error in the middle.
EvUpdate change(ProfileRegistry& r, ProfileId id, const EvProfileChange& what) {
  const auto changed = r.change_evs(id, what);
  if (changed.error) std::rethrow_exception(changed.error);
  return changed.update;
}
template <class F>
std::error_code code_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return {};
}

TEST_CASE("profiles: INIT to OFFLINE to ONLINE and back, with what each step needs") {
  ProfileRegistry r(surroundings());
  SUBCASE("format") {
    CHECK(code_of([&] {
            r.change_format(1, {online, path::EvMode::udp, {}});
          }) == Errc::invalid_argument);
    CHECK(code_of([&] { r.change_format(1, {offline, {}, {}}); }) == Errc::invalid_argument);
    CHECK(code_of([&] {
            r.change_format(1, {{}, path::EvMode::udp, {}});
          }) == Errc::invalid_argument);
    r.change_format(1, {offline, path::EvMode::udp, {}});
    CHECK(code_of([&] { r.change_format(1, {online, {}, {}}); }) == Errc::invalid_argument);
    CHECK(code_of([&] { r.change_format(1, {online, {}, {{{17}}}}); }) == Errc::no_resources);
    CHECK(r.format(1).state == offline);
    CHECK(r.format(1).fields.empty());  // a call that fails changes nothing
    r.change_format(1, {online, {}, {{{8}, {8}}}});
    CHECK(r.format(1).fields.size() == 2);
    CHECK(code_of([&] {
            r.change_format(1, {{}, path::EvMode::stev, {}});
          }) == Errc::invalid_state);
    CHECK(code_of([&] { r.change_format(1, {init, {}, {}}); }) == Errc::invalid_argument);
    r.change_format(1, {offline, {}, {}});
    r.change_format(1, {init, {}, {}});
    CHECK(r.format(1).state == init);
    CHECK_FALSE(r.format(1).mode);
  }
  SUBCASE("EV") {
    CHECK(code_of([&] { change(r, 9, offline_change(EvProfileMode::explicit_, 2)); }) ==
          Errc::not_found);  // its format
    make_format(r);
    CHECK(code_of([&] { change(r, 9, to(offline)); }) == Errc::invalid_argument);
    CHECK(code_of([&] { change(r, 9, offline_change(EvProfileMode::explicit_, 4097)); }) ==
          Errc::no_resources);
    CHECK(code_of([&] { change(r, 9, offline_change(EvProfileMode::generated, 2)); }) ==
          Errc::invalid_argument);  // no fields
    change(r, 9, offline_change(EvProfileMode::explicit_, 2));
    CHECK(r.evs(9).entries.size() == 2);
    CHECK(r.limits().free_evs == r.limits().max_evs - 2);
    CHECK(code_of([&] { change(r, 9, online_change()); }) == Errc::invalid_argument);
    CHECK(code_of([&] {
            change(r, 9, operations({replace({}, ev(5, 3))}));  // there are two ports
          }) == Errc::invalid_argument);
    change(r, 9, operations({replace({}, ev(5)), replace({}, ev(6, 2))}));
    CHECK(code_of([&] { change(r, 9, to(online)); }) == Errc::invalid_argument);  // no mask
    auto most = online_change();
    most.min_active = 3;
    CHECK(code_of([&] { change(r, 9, most); }) == Errc::invalid_argument);
    CHECK(change(r, 9, online_change()).table->entries.size() == 2);
    EvProfileChange count;
    count.ev_count = 3;
    CHECK(code_of([&] { change(r, 9, count); }) == Errc::invalid_state);
    CHECK(code_of([&] { r.change_format(1, {offline, {}, {}}); }) == Errc::in_use);
    r.acquire({9, {}});
    CHECK(code_of([&] { change(r, 9, to(offline)); }) == Errc::in_use);
    CHECK(r.evs(9).queue_pairs == 1);
    r.release({9, {}});
    change(r, 9, to(offline));
    CHECK(r.table(9) == nullptr);
    CHECK(code_of([&] { r.acquire({9, {}}); }) == Errc::invalid_state);
    r.change_format(1, {offline, {}, {}});
    CHECK(code_of([&] { r.change_format(1, {init, {}, {}}); }) == Errc::in_use);
    change(r, 9, to(init));
    CHECK(code_of([&] { r.acquire({9, {}}); }) == Errc::not_found);
    r.change_format(1, {init, {}, {}});
    CHECK(r.limits().free_evs == r.limits().max_evs);
  }
  SUBCASE("CC") {
    CHECK(code_of([&] { r.change_cc(3, {offline, {}, {}}); }) == Errc::invalid_argument);
    r.change_cc(3, {offline, cc::Algorithm::nscc, {}});
    CHECK(code_of([&] { r.change_cc(3, {online, {}, {}}); }) == Errc::invalid_argument);
    CcConfig config;
    config.gamma = 7;
    CHECK(code_of([&] { r.change_cc(3, {online, {}, config}); }) == Errc::invalid_argument);
    config.gamma = 0.5;
    config.max_cwnd = 50'000;
    r.change_cc(3, {online, {}, config});
    CHECK(r.cc_options(3).nscc.gamma == 0.5);
    CHECK(*r.cc_options(3).nscc.max_cwnd == 50'000);
    CHECK(r.cc_options(3).nscc.link_speed == cc::Options{}.nscc.link_speed);
    CHECK(code_of([&] { r.change_cc(3, {{}, {}, config}); }) == Errc::invalid_state);
    r.acquire({{}, 3});
    CHECK(code_of([&] { r.change_cc(3, {offline, {}, {}}); }) == Errc::in_use);
    r.release({{}, 3});
    r.change_cc(3, {offline, {}, {}});
    CHECK(code_of([&] { r.acquire({{}, 3}); }) == Errc::invalid_state);
    r.change_cc(3, {init, {}, {}});
    CHECK(code_of([&] { r.acquire({{}, 3}); }) == Errc::not_found);
  }
}

TEST_CASE("profiles: GENERATED EVs are different, within their ranges, over all ports in turn") {
  ProfileRegistry r(surroundings(4));
  make_format(r, 1, path::EvMode::stev, {{16}, {16}});
  EvProfileChange made = offline_change(EvProfileMode::generated, 64);
  made.fields = {{16, 0x4000, 1, 8, 0xF}, {16, 0xC000, 0, 15, 0xF0}};
  change(r, 2, made);
  const EvTablePtr table = change(r, 2, online_change()).table;
  std::set<Ev> names;
  for (std::size_t i = 0; i < 64; ++i) {
    const ExpandedEv& e = table->entries[i].expanded;
    CHECK(names.insert(e.name).second);
    CHECK(e.plane == i % 4);
    CHECK((value(e.name) >> 16 >= 0x4001 && value(e.name) >> 16 <= 0x4008));
    CHECK((value(e.name) & 0xFF0F) == 0xC000);
  }
  made.ev_count = 129;
  CHECK(code_of([&] { change(r, 3, made); }) == Errc::no_resources);  // the ranges make 128
  // Fields can be changed while it is ONLINE: all EVs are others then.
  EvProfileChange fields;
  fields.fields = {{16, 0x5000, 1, 8, 0xF}, {16, 0xC000, 0, 15, 0xF0}};
  const EvUpdate update = change(r, 2, fields);
  CHECK(update.replaced.size() == 64);
  CHECK((value(update.table->entries[7].expanded.name) >> 28) == 5);
}

TEST_CASE("profiles: EVs of 256 bits, and names for those that begin alike") {
  ProfileRegistry r(surroundings());
  make_format(r, 1, path::EvMode::srv6, {{64}, {64}, {64}, {64}});
  const auto long_ev = [](unsigned last, unsigned port) {
    ProfileEv e;
    path::put_bits(e.value, 0, 32, 0xFC000001);
    path::put_bits(e.value, 248, 8, last);
    e.port = static_cast<std::uint8_t>(port);
    return e;
  };
  change(r, 2, offline_change(EvProfileMode::explicit_, 5));
  change(r, 2,
         operations({replace({}, long_ev(1, 1)), replace({}, long_ev(2, 1)),
                     replace({}, long_ev(1, 1)), replace({}, long_ev(1, 2)),
                     replace({}, long_ev(9, 2))}));
  const EvTablePtr table = change(r, 2, online_change()).table;
  const auto name = [](const EvTablePtr& t, std::size_t i) { return t->entries[i].expanded.name; };
  CHECK(table->entries[4].expanded.fields == long_ev(9, 2).value);
  std::set<Ev> names;
  for (std::size_t i = 0; i < 5; ++i) names.insert(name(table, i));
  CHECK(names.size() == 4);
  CHECK(name(table, 0) == name(table, 2));  // a copy
  // Others keep their names when one is replaced.
  const EvUpdate update = change(r, 2, operations({replace(long_ev(2, 1), long_ev(7, 1))}));
  CHECK(update.replaced == std::vector<path::PathIndex>{1});
  for (const std::size_t i : {0u, 2u, 3u, 4u}) CHECK(name(update.table, i) == name(table, i));
  // Without room in the format, a bit is a mistake.
  make_format(r, 5, path::EvMode::srv6, {{64}, {64}});
  change(r, 6, offline_change(EvProfileMode::explicit_, 1, 5));
  change(r, 6, operations({replace({}, long_ev(1, 1))}));
  CHECK(code_of([&] { change(r, 6, online_change()); }) == Errc::invalid_argument);
}

TEST_CASE("profiles: a batch of operations ends at the first that fails, the others are done") {
  ProfileRegistry r(surroundings());
  make_format(r);
  change(r, 1, offline_change(EvProfileMode::explicit_, 3));
  change(r, 1, operations({replace({}, ev(1)), replace({}, ev(2)), replace({}, ev(3))}));
  change(r, 1, online_change());
  const auto changed =
      r.change_evs(1, operations({set_state(ev(1), EvState::denied), replace(ev(2), ev(20)),
                                  replace(ev(99), ev(21)), set_state(ev(3), EvState::denied)}));
  REQUIRE(changed.error);
  try {
    std::rethrow_exception(changed.error);
  } catch (const Error& e) {
    CHECK(e.code() == Errc::not_found);
    CHECK(contains(e.what(), "operation 2"));
  }
  CHECK(changed.update.replaced == std::vector<path::PathIndex>{1});
  const EvProfileInfo info = r.evs(1);
  CHECK(info.entries[0].state == EvState::denied);
  CHECK(info.entries[1].ev == ev(20));
  CHECK(info.entries[2].state == EvState::good);
  CHECK(code_of([&] { change(r, 1, operations({replace(ev(3), ev(0xDEAD))})); }) ==
        Errc::unsupported);
  CHECK(code_of([&] { change(r, 1, operations({set_state(ev(3), EvState::assumed_bad)})); }) ==
        Errc::invalid_argument);
  CHECK(code_of([&] { change(r, 1, operations({replace(ev(3), {})})); }) == Errc::invalid_argument);
  EvProfileChange both = operations({set_state(ev(3), EvState::good)});
  both.fields = std::vector<path::EvField>{};
  CHECK(code_of([&] { change(r, 1, both); }) == Errc::invalid_argument);
}

/// What the array should be, and what a peer's path set would be after all updates.
struct Model {
  struct Entry {
    ProfileEv ev;
    bool denied;
  };
  std::vector<Entry> entries;

  /// Whether the operation is legal.
  bool apply(const EvOperation& op) {
    if (op.kind == EvOperation::Kind::replace &&
        (op.replacement.port < 1 || op.replacement.port > 2 ||
         op.replacement.value == ev(0xDEAD).value))
      return false;
    if (op.state != EvState::good && op.state != EvState::denied) return false;
    bool found = false;
    for (Entry& e : entries) {
      if (!(e.ev == op.ev) || (found && !op.all_copies)) continue;
      found = true;
      if (op.kind == EvOperation::Kind::replace) e.ev = op.replacement;
      e.denied = op.state == EvState::denied;
    }
    return found;
  }
};

TEST_CASE("profiles: random operations agree with a model, and updates say all that peers need") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    ProfileRegistry r(surroundings());
    make_format(r);
    const std::uint32_t size = 1 + random.below(12);
    change(r, 4, offline_change(EvProfileMode::explicit_, size));
    Model model;
    std::vector<EvOperation> fill;
    for (std::uint32_t i = 0; i < size; ++i) {
      const ProfileEv e = ev(1 + random.below(6), 1 + random.below(2));
      fill.push_back(replace({}, e));
      model.entries.push_back({e, false});
    }
    change(r, 4, operations(fill));
    struct Path {
      ExpandedEv ev;
      bool denied;
    };
    std::vector<Path> peer;
    const EvTablePtr first = change(r, 4, online_change()).table;
    for (const auto& e : first->entries) peer.push_back({e.expanded, e.denied});
    for (int round = 0; round < 300; ++round) {
      std::vector<EvOperation> ops;
      for (std::uint32_t n = 1 + random.below(4); n > 0; --n) {
        EvOperation op;
        op.kind = random.below(2) == 0 ? EvOperation::Kind::replace : EvOperation::Kind::set_state;
        op.ev =
            random.below(10) == 0 ? ev(1 + random.below(9)) : model.entries[random.below(size)].ev;
        op.replacement = ev(random.below(30) == 0 ? 0xDEAD : 1 + random.below(6),
                            random.below(30) == 0 ? 3 : 1 + random.below(2));
        op.state = random.below(3) == 0 ? EvState::denied : EvState::good;
        if (random.below(30) == 0) op.state = EvState::assumed_bad;
        op.all_copies = random.below(2) == 0;
        ops.push_back(op);
      }
      bool legal = true;
      for (std::size_t i = 0; legal && i < ops.size(); ++i) legal = model.apply(ops[i]);
      const auto changed = r.change_evs(4, operations(ops));
      CHECK((changed.error == nullptr) == legal);
      const EvTable& table = *changed.update.table;
      for (const auto& written : changed.update.written) peer[written.path].denied = written.denied;
      for (const path::PathIndex i : changed.update.replaced)
        peer[i] = {table.entries[i].expanded, table.entries[i].denied};
      const EvProfileInfo info = r.evs(4);
      for (std::size_t i = 0; i < size; ++i) {
        CHECK(info.entries[i].ev == model.entries[i].ev);
        CHECK((info.entries[i].state == EvState::denied) == model.entries[i].denied);
        CHECK(peer[i].ev == table.entries[i].expanded);
        CHECK(peer[i].denied == model.entries[i].denied);
      }
    }
  }
}

}  // namespace
}  // namespace mrc::detail::profile_registry_test
