// SPDX-License-Identifier: Apache-2.0
// DeviceCore: profiles.
#pragma once

#include <exception>
#include <mutex>
#include <optional>

#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1::detail {

void DeviceCore::open_profiles() {
  ProfileSurroundings around;
  around.planes = plane_count();
  around.seed = config_.seed != 0 ? config_.seed : guid_;
  around.cc = lanes_[0].engine().options().cc;
  around.formats = kind_->ev_formats();
  around.check_ev = [this](path::EvMode mode, const ExpandedEv& ev) { check_ev(mode, ev); };
  profiles_.open(std::move(around));
}

/// Throws mrc::Error if no lane can send the EV: lanes differ in the source ports of UDP planes.
/// The paths of a lane do not change, so no lock is needed.
void DeviceCore::check_ev(path::EvMode mode, const ExpandedEv& ev) const {
  std::optional<Error> first;
  for (const auto& lane : lanes_) try {
      (void)kind_->path_of(lane->planes(), mode, ev, 0);
      return;
    } catch (const Error& error) {
      if (!first) first = error;
    }
  if (first) throw *first;
}

std::vector<ProfileEv> DeviceCore::own_evs() const {
  return kind_->own_evs(lanes_[0].planes());
}

std::vector<EvEntry> DeviceCore::own_ev_entries() const {
  const std::vector<ProfileEv> evs = own_evs();
  std::vector<EvEntry> entries(evs.size());
  for (std::size_t i = 0; i < evs.size(); ++i) entries[i].ev = evs[i];
  lanes_[0].add_own_states(entries);
  return entries;
}

void DeviceCore::change_format_profile(ProfileId id, const FormatProfileChange& change) {
  profiles_.with([&](ProfileRegistry& profiles) { profiles.change_format(id, change); });
}

void DeviceCore::change_cc_profile(ProfileId id, const CcProfileChange& change) {
  profiles_.change_cc(id, change);
}

void DeviceCore::change_ev_profile(ProfileId id, const EvProfileChange& change) {
  const std::lock_guard changing(changing_profiles_);
  const auto changed = profiles_.change_evs(id, change);
  if (changed.update.table)
    for (const auto& lane : lanes_) lane->update_paths(changed.update);
  if (changed.error) std::rethrow_exception(changed.error);
}

/// An entry is GOOD or ASSUMED_BAD if it is so towards every destination.
EvProfileInfo DeviceCore::ev_profile(ProfileId id, bool of_host) {
  const std::lock_guard changing(changing_profiles_);
  const auto known = [id](const ProfileRegistry& profiles) { return profiles.evs(id); };
  EvProfileInfo info = of_host ? profiles_.with_host(known) : profiles_.with(known);
  for (const auto& lane : lanes_) lane->add_states(id, info.entries);
  for (EvEntry& entry : info.entries)
    if (entry.state != EvState::denied && entry.assumed_bad > 0)
      entry.state = entry.good > 0 ? EvState::unknown : EvState::assumed_bad;
  return info;
}

}  // namespace mrc::inline v0_1::detail
