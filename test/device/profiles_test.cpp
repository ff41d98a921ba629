// SPDX-License-Identifier: Apache-2.0
// Profiles of whole devices: over planes in memory, which carry any EV and lose some on demand, and
// over UDP sockets.
#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "gid_rig.hpp"
#include "lanes_rig.hpp"
#include "profiles_rig.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace mrc::test::profiles;

namespace profiles_test {

TEST_CASE("profiles: queue pairs to one destination have paths and windows of their profiles") {
  Net net;
  make_profile(net.a.device, 1, evs_from(0x1000, 4));
  make_profile(net.a.device, 2, evs_from(0x2000, 2));
  net.a.device.modify_cc_profile(7, {ProfileState::offline, cc::Algorithm::nscc, {}});
  CcConfig config;
  config.max_cwnd = 20'000;
  net.a.device.modify_cc_profile(7, {ProfileState::online, {}, config});

  QueuePair& one = net.pair({1, {}});
  QueuePair& two = net.pair({2, 7});
  QueuePair& plain = net.pair();
  CHECK(net.a.device.stats().peers == 3);
  QueuePair& same = net.pair({1, {}});
  CHECK(net.a.device.stats().peers == 3);  // shares paths and window with the first
  CHECK(net.b->device.stats().peers == 1);
  CHECK(two.query().profiles == QpProfiles{2, 7});

  CHECK(two.stats().cwnd <= 20'000);
  CHECK(one.stats().cwnd > 20'000);  // before it has sent anything: the device's own
  for (QueuePair* qp : {&one, &two, &plain, &same}) {
    net.copy(*qp);
    const auto paths = net.paths(*qp);
    const std::uint32_t first = qp == &two ? 0x2000 : qp == &plain ? 0 : 0x1000;
    CHECK(paths.size() == (qp == &two ? 4 : 8u) / (qp == &plain ? 2 : 1));  // EVs repeat by plane
    for (const auto& [name, report] : paths) {
      CHECK(name - first < 8);
      CHECK(report.packets > 0);
      if (qp == &two) CHECK(report.plane == name % 2);
    }
  }
  CHECK(two.stats().cwnd <= 20'000);

  // Profiles in use stay; they go with the last queue pair.
  CHECK(net.a.device.query_ev_profile(1).queue_pairs == 2);
  EvProfileChange offline;
  offline.state = ProfileState::offline;
  CHECK(code_of([&] { net.a.device.modify_ev_profile(1, offline); }) == Errc::in_use);
  CHECK(one.reset() == Errc::ok);
  CHECK(same.close() == Errc::ok);
  net.a.device.modify_ev_profile(1, offline);
  CHECK(code_of([&] { one.modify({}); }) == Errc::invalid_state);  // not ONLINE
  QpChange other;
  other.profiles = QpProfiles{2, {}};
  one.modify(other);
  CHECK(one.query().profiles == QpProfiles{2, {}});
  CHECK(net.a.device.query_ev_profile(2).queue_pairs == 2);
}

TEST_CASE("profiles: EVs are denied and replaced under traffic") {
  Net net;
  const auto evs = evs_from(0x1000, 4);
  make_profile(net.a.device, 1, evs);
  QueuePair& qp = net.pair({1, {}});
  std::map<std::uint32_t, PathReport> before;
  SUBCASE("denied: no packet takes it any more, until it is GOOD again") {
    net.copy(qp, [&](std::size_t done) {
      if (done != 4) return;
      operate(net.a.device, 1,
              {set_state(evs[0], EvState::denied), set_state(evs[3], EvState::denied)});
      before = net.paths(qp);
    });
    auto after = net.paths(qp);
    for (const auto& [name, report] : after) {
      const bool denied = name == 0x1000 || name == 0x1003;
      CHECK((report.state == "denied") == denied);
      if (denied) CHECK(report.packets == before[name].packets);
    }
    CHECK(net.a.device.query_ev_profile(1).entries[3].state == EvState::denied);
    operate(net.a.device, 1, {set_state(evs[3], EvState::good)});
    net.copy(qp);
    CHECK(net.paths(qp)[0x1003].packets > after[0x1003].packets);
    CHECK(net.paths(qp)[0x1000].packets == after[0x1000].packets);
    // Who connects later finds it denied as well.
    QueuePair& later = net.pair({1, {}});
    CHECK(net.paths(later)[0x1000].state == "denied");
  }
  SUBCASE("replaced: the data takes the new one") {
    net.network->set_dead(Ev{0x1002}, true);
    net.copy(qp, [&](std::size_t done) {
      if (done % 3 == 0) {  // several times, each time by another one
        const auto old = static_cast<std::uint32_t>(done / 3);
        operate(net.a.device, 1,
                {replace(ev(old == 0 ? 0x1002 : 0x3000 + old, 1), ev(0x3001 + old, 1))});
      }
    });
    net.copy(qp);
    const auto paths = net.paths(qp);
    CHECK_FALSE(paths.contains(0x1002));
    CHECK(paths.size() == 8);
    const std::uint32_t last = 0x3001 + (net.a.source.size() / (64 << 10) - 1) / 3;
    REQUIRE(paths.contains(last));
    CHECK(paths.at(last).packets > 0);
    CHECK(net.a.device.query_ev_profile(1).entries[2].ev == ev(last, 1));
  }
  SUBCASE("all denied: nothing is sent; one GOOD again: all of it") {
    std::vector<EvOperation> deny;
    for (const ProfileEv& e : evs) deny.push_back(set_state(e, EvState::denied));
    operate(net.a.device, 1, deny);
    REQUIRE(net.post(qp, 0, 64 << 10) == Errc::ok);
    for (int i = 0; i < 100; ++i) (void)net.a.device.progress();
    CHECK(qp.stats().tx_packets == 0);
    operate(net.a.device, 1, {set_state(evs[5], EvState::good)});
    std::array<Completion, 1> c;
    REQUIRE(net.eventually([&] { return net.a.cq.poll(c) == 1; }));
    CHECK(c[0].status == WcStatus::success);
    for (const auto& [name, report] : net.paths(qp))
      CHECK((report.packets > 0) == (name == 0x1005));
  }
}

TEST_CASE("profiles: EV events say which path became bad and good, and what was dropped") {
  Net net;
  EvEventStream all = net.a.device.create_ev_event_stream(64);
  EvEventStream small = net.a.device.create_ev_event_stream(1);
  const auto evs = evs_from(0x1000, 4);
  make_profile(net.a.device, 3, evs);
  QueuePair& qp = net.pair({3, {}});
  net.copy(qp);
  std::array<EvEvent, 16> events;
  CHECK(all.poll(events) == 0);

  const auto state_of = [&](std::size_t i) {
    return net.a.device.query_ev_profile(3).entries[i].state;
  };
  std::vector<EvEvent> got;
  const auto readable = [&](EvEventStream& stream) {
    pollfd p{stream.fd(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  };
  const auto await = [&](const std::function<bool()>& complete) {
    REQUIRE(net.eventually([&] {
      const bool waits = readable(all);
      const std::size_t n = all.poll(events);
      CHECK((!waits || n > 0));
      got.insert(got.end(), events.begin(), events.begin() + static_cast<std::ptrdiff_t>(n));
      return complete();
    }));
  };
  const auto seen = [&](std::uint32_t name, EvState state) {
    return std::any_of(got.begin(), got.end(), [&](const EvEvent& e) {
      return value(e.entropy) == name && e.state == state;
    });
  };
  // Three paths die. Data goes on over the others.
  const std::uint32_t dying[] = {0x1001, 0x1004, 0x1006};
  for (const std::uint32_t name : dying) net.network->set_dead(Ev{name}, true);
  while (state_of(1) == EvState::good || state_of(4) == EvState::good ||
         state_of(6) == EvState::good)
    net.copy(qp);
  await([&] {
    return std::all_of(std::begin(dying), std::end(dying),
                       [&](std::uint32_t name) { return seen(name, EvState::assumed_bad); });
  });
  for (const EvEvent& e : got) {
    CHECK(e.profile == ProfileId{3});
    CHECK(e.ev == ev(value(e.entropy), 1 + e.plane));
    CHECK(e.destination == net.b->qps[0].local_info().planes[e.plane].ip);
    CHECK(e.drop_count == 0);
  }
  const EvProfileInfo info = net.a.device.query_ev_profile(3);
  CHECK((info.entries[1].assumed_bad == 1 && info.entries[1].good == 0));

  // One comes back. The small stream has room for one event at a time: the next one says how many
  // there have been in between.
  REQUIRE(small.poll(events) == 1);
  CHECK(events[0].drop_count == 0);
  CHECK(events[0].entropy == got[0].entropy);
  net.network->set_dead(Ev{0x1004}, false);
  await([&] { return seen(0x1004, EvState::good); });
  CHECK_FALSE(readable(all));
  REQUIRE(small.poll(events) == 1);
  CHECK(events[0].drop_count >= 2);
  REQUIRE(events[0].drop_count + 1 < got.size());
  CHECK(events[0].entropy == got[events[0].drop_count + 1].entropy);
  CHECK(events[0].state == got[events[0].drop_count + 1].state);
  CHECK_FALSE(readable(small));

  // The mask can be changed at any time.
  EvProfileChange mask;
  mask.event_mask = 0;
  net.a.device.modify_ev_profile(3, mask);
  while (all.poll(events) > 0) continue;
  net.network->set_dead(Ev{0x1001}, false);
  REQUIRE(net.eventually([&] { return state_of(1) == EvState::good; }));
  CHECK(all.poll(events) == 0);
}

TEST_CASE("profiles: states differ by destination, and a restarted one is another") {
  Net net;
  make_profile(net.a.device, 1, evs_from(0x1000, 2));
  make_profile(net.a.device, 2, evs_from(0x1000, 2));  // the same EVs: another set of paths
  QueuePair& one = net.pair({1, {}});
  QueuePair& two = net.pair({2, {}});
  net.network->set_dead(Ev{0x1001}, true);
  const auto state_of = [&](ProfileId id) {
    return net.a.device.query_ev_profile(id).entries[1].state;
  };
  while (state_of(1) == EvState::good) net.copy(one);
  CHECK(state_of(2) == EvState::good);
  net.copy(two);
  net.network->set_dead(Ev{0x1001}, false);

  net.b = nullptr;  // restarts at the same addresses, with nothing of what it knew
  net.b = std::make_unique<MemoryHost>(net.network, 2, patient_config(77));
  QueuePair& again = net.pair({1, {}});
  net.copy(again);
  CHECK(net.a.device.stats().peers == 3);
  CHECK(net.a.device.query_ev_profile(1).queue_pairs == 2);
  // A change reaches the old life and the new one.
  operate(net.a.device, 1, {set_state(ev(0x1000, 1), EvState::denied)});
  CHECK(net.paths(one)[0x1000].state == "denied");
  CHECK(net.paths(again)[0x1000].state == "denied");
  CHECK(net.paths(two)[0x1000].state == "good");
}

TEST_CASE("profiles: by GID, in every lane, and AUTO profiles") {
  Config config = patient_config();
  config.lanes = 2;
  Net net(config);
  make_profile(net.a.device, 1, evs_from(0x1000, 3));
  QueuePair &left = net.pair({1, {}}, 0), &right = net.pair({1, {}}, 1);
  for (QueuePair* qp : {&left, &right}) {
    net.copy(*qp);
    CHECK(net.paths(*qp).size() == 6);
  }
  operate(net.a.device, 1, {set_state(ev(0x1000, 1), EvState::denied)});
  CHECK(net.paths(left)[0x1000].state == "denied");
  CHECK(net.paths(right)[0x1000].state == "denied");
  CHECK(net.a.device.query_ev_profile(1).entries[1].good == 2);

  // AUTO: the device's own paths, as many as the profile wants.
  EvProfileChange change;
  change.state = ProfileState::offline;
  change.mode = EvProfileMode::automatic;
  change.ev_count = 4;
  net.a.device.modify_ev_profile(2, change);
  change = {};
  change.state = ProfileState::online;
  change.min_active = 2;
  change.event_mask = 0;
  net.a.device.modify_ev_profile(2, change);
  CHECK(code_of([&] { operate(net.a.device, 2, {set_state(ev(1, 1), EvState::denied)}); }) ==
        Errc::unsupported);

  QueuePair &a = net.a.add_qp({2, {}}), &b = net.b->add_qp();
  connect_by_gid(net.a, a, *net.b, b);
  net.copy(a);
  unsigned active = 0;
  for (const PathReport& r : net.a.device.paths(a)) active += r.active;
  CHECK(active == 4);
}

TEST_CASE("profiles: UDP ports take the EVs of their own paths, and refuse others") {
  Pair pair(test_config());
  const auto own = pair.a.device.paths(pair.a.qps[0]);
  std::vector<ProfileEv> half;
  std::set<Ev> names;
  for (const PathReport& r : own)
    if (r.port_path % 2 == 0) {
      half.push_back(ev(value(r.ev), 1u + r.plane));
      names.insert(r.ev);
    }
  make_profile(pair.a.device, 1, half);
  QpOptions options;
  options.send_cq = &pair.a.cq;
  options.profiles.ev = 1;
  pair.a.qps.push_back(pair.a.device.create_qp(options));
  connect(pair.a.qps[1], pair.b.add_qp());
  REQUIRE(post_copy(pair.a, pair.a.qps[1], pair.b, 0, pair.a.source.size()) == Errc::ok);
  CHECK(pair.a.await_one().status == WcStatus::success);
  CHECK(pair.a.source == pair.b.target);
  for (const PathReport& r : pair.a.device.paths(pair.a.qps[1])) {
    CHECK(names.contains(r.ev));
    CHECK(r.packets > 0);
  }
  for (const PathReport& r : pair.a.device.paths(pair.a.qps[0])) CHECK(r.packets == 0);

  const std::string no_port = error_of([&] { make_profile(pair.a.device, 2, {ev(7, 1)}); });
  CHECK(contains(no_port, "EV 7 is none of UDP plane 0"));
  pair.a.device.modify_format_profile(2, {ProfileState::offline, path::EvMode::srv6, {}});
  pair.a.device.modify_format_profile(2, {ProfileState::online, {}, {{{64}, {64}}}});
  EvProfileChange change;
  change.state = ProfileState::offline;
  change.mode = EvProfileMode::explicit_;
  change.format = 2;
  change.ev_count = 1;
  pair.a.device.modify_ev_profile(4, change);
  change = {};
  change.operations = {replace({}, ev(0xFC00, 1))};
  change.min_active = 1;
  change.event_mask = 0;
  change.state = ProfileState::online;
  CHECK(contains(error_of([&] { pair.a.device.modify_ev_profile(4, change); }),
                 "UDP ports do not encapsulate"));
}

TEST_CASE("profiles: what a peer says of its ports holds for all profiles") {
  Pair pair(test_config());
  std::vector<ProfileEv> own;
  for (const PathReport& r : pair.a.device.paths(pair.a.qps[0]))
    own.push_back(ev(value(r.ev), 1u + r.plane));
  make_profile(pair.a.device, 1, own);
  make_profile(pair.a.device, 2, own);
  const auto add = [&](ProfileId id) {
    QpOptions options;
    options.send_cq = &pair.a.cq;
    options.profiles.ev = id;
    pair.a.qps.push_back(pair.a.device.create_qp(options));
    connect(pair.a.qps.back(), pair.b.add_qp());
  };
  add(1);
  pair.b.device.set_faults("plane=1,down");
  const auto write_all = [&] {
    for (QueuePair& qp : pair.a.qps) {
      REQUIRE(post_copy(pair.a, qp, pair.b, 0, pair.a.source.size()) == Errc::ok);
      CHECK(pair.a.await_one().status == WcStatus::success);
    }
  };
  REQUIRE(eventually([&] { return pair.a.device.stats().engine.port_updates_received > 0; },
                     [&] { (void)pair.a.device.progress(); }));
  add(2);  // who connects later has heard of it, too
  const auto in_plane_1 = [&] {
    std::uint64_t packets = 0;
    for (const QueuePair& qp : pair.a.qps)
      for (const PathReport& r : pair.a.device.paths(qp))
        if (r.plane == 1) packets += r.packets;
    return packets;
  };
  const std::uint64_t before = in_plane_1();
  write_all();
  CHECK(in_plane_1() == before);
  CHECK(pair.a.source == pair.b.target);
}

}  // namespace profiles_test
