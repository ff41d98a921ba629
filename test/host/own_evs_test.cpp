// SPDX-License-Identifier: Apache-2.0
// Which EVs a device's planes can send, as a controller finds out.
#include <doctest/doctest.h>

#include "device/device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("own EVs: UDP planes list what they can send, and a profile takes all of it") {
  Pair pair;
  Device& device = pair.a.device;
  const path::EvFormats formats = device.profile_limits().formats;
  CHECK(formats.modes == (bit_of(path::EvMode::udp) | bit_of(path::EvMode::stev)));
  CHECK(formats.max_width == 16);
  const std::vector<ProfileEv> evs = device.own_evs();
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
  for (const ProfileEv& ev : evs) change.operations.emplace_back().replacement = ev;
  change.state = ProfileState::online;
  device.modify_ev_profile(5, change);
  CHECK(device.query_ev_profile(5).entries.size() == evs.size());
}
