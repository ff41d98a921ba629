// SPDX-License-Identifier: Apache-2.0
// Which EVs a device's planes can send, as a controller finds out.
#include <doctest/doctest.h>

#include <algorithm>

#include "device/device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("own EVs: UDP planes list what they can send, and a profile takes all of it") {
  Pair pair;
  Device& device = pair.a.device;
  const path::EvFormats formats = device.profile_limits().formats;
  CHECK(formats.modes == (bit_of(path::EvMode::udp) | bit_of(path::EvMode::stev)));
  CHECK(formats.max_width == 16);
  const std::vector<EvEntry> evs = device.own_evs();
  REQUIRE(evs.size() == device.config().paths * device.plane_count());

  device.modify_format_profile(1, {ProfileState::offline, path::EvMode::udp, {}});
  device.modify_format_profile(1, {ProfileState::online, {}, {{{16}}}});
  EvProfileChange change;
  change.state = ProfileState::offline;
  change.mode = EvProfileMode::explicit_;
  change.format = 1;
  change.ev_count = static_cast<std::uint32_t>(evs.size());
  change.min_active = 1;
  change.event_mask = 0;
  device.modify_ev_profile(5, change);
  change = {};
  for (const EvEntry& entry : evs) change.operations.emplace_back().replacement = entry.ev;
  change.state = ProfileState::online;
  device.modify_ev_profile(5, change);
  CHECK(device.query_ev_profile(5).entries.size() == evs.size());
}

TEST_CASE("own EVs have states, and events of paths without profile name them in the same way") {
  Pair pair;
  Device& device = pair.a.device;
  EvEventStream events = device.create_ev_event_stream(64);
  pair.copy_all();
  const auto entry_of = [&](const ProfileEv& ev) {
    const std::vector<EvEntry> evs = device.own_evs();
    const auto is_it = [&](const EvEntry& entry) { return entry.ev == ev; };
    const auto at = std::find_if(evs.begin(), evs.end(), is_it);
    REQUIRE(at != evs.end());
    return *at;
  };
  device.set_faults("plane=1,path=2,loss=1");  // probes of that path, too
  EvEvent event;
  // On a busy machine others, and this one before, may be assumed bad for a while.
  const auto dead = [&] {
    return event.plane == 1 && event.state == EvState::assumed_bad &&
           device.own_evs()[device.config().paths + 2u].ev == event.ev;
  };
  REQUIRE(eventually(
      [&] {
        return events.poll({&event, 1}) == 1 && dead();
      },
      [&] { pair.copy_all(); }));
  CHECK(event.ev.port == 2);
  CHECK_FALSE(event.profile);
  const ProfileEv its = event.ev;
  CHECK(eventually([&] { return entry_of(its).state == EvState::assumed_bad; },
                   [&] { pair.copy_all(); }));
  CHECK(entry_of(its).assumed_bad == 1);
  while (events.poll({&event, 1}) == 1) (void)entry_of(event.ev);  // of whichever path

  device.set_faults("");
  CHECK(eventually([&] { return entry_of(its).state == EvState::good; }, [&] { pair.copy_all(); }));
}
