// SPDX-License-Identifier: Apache-2.0
// Lane: profiles of its queue pairs, and events of its paths.
#pragma once

#include <cstdint>

#include "mrc/host/lane.hpp"

namespace mrc::inline v0_1::detail {

void Lane::set_profiles(Qpn qpn, const QpProfiles& profiles) {
  const std::lock_guard lock(mutex_);
  chosen_[value(qpn)].profiles = profiles;
}

/// From RESET to INIT, with the profiles that were chosen, which stay ONLINE from now on. Throws
/// mrc::Error. Under the lock.
void Lane::enter_init(Qpn qpn, const std::string& doing) {
  Chosen& chosen = chosen_[value(qpn)];
  const EvTablePtr evs = profiles_of(qpn).evs;
  for (std::size_t i = 0; evs && i < evs->entries.size(); ++i)
    (void)planes_.kind->path_of(planes_, evs->format, evs->entries[i].expanded,
                                static_cast<std::uint16_t>(i));  // throws if this lane has none
  profiles_.acquire(chosen.profiles);
  chosen.held = true;
  const Errc e = engine_.to_init(qpn);
  if (e == Errc::ok) return;
  release_profiles(qpn);
  throw Error(e, doing);
}

void Lane::release_profiles(Qpn qpn) noexcept {
  const auto at = chosen_.find(value(qpn));
  if (at == chosen_.end() || !std::exchange(at->second.held, false)) return;
  profiles_.release(at->second.profiles);
}

/// Under the lock.
PeerProfiles Lane::profiles_of(Qpn qpn) const {
  const auto at = chosen_.find(value(qpn));
  if (at == chosen_.end()) return {};
  PeerProfiles out;
  out.ids = at->second.profiles;
  if (out.ids.ev) out.evs = profiles_.table(*out.ids.ev);
  if (out.ids.cc) out.cc = profiles_.cc_options(*out.ids.cc);
  return out;
}

/// The host's profiles may be others than before. Under the lock.
void Lane::follow_profiles(Time now) noexcept try {
  for (const std::string& line : profiles_.follow(steering_.host_state())) log_.warn(line);
  peers_.follow(now, [this](ProfileId id) { return profiles_.table(id); });
} catch (const std::exception& error) {  // out of memory: profiles stay as they are
  log_.warn(std::string("the profiles for this host have changed: ") + error.what());
}

void Lane::update_paths(const EvUpdate& update) noexcept {
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  peers_.update(now, update);
  rounds_.after_post(now, false);  // packets may have waited for a path
  progress_.deadline_changed();
}

void Lane::add_states(ProfileId profile, std::span<EvEntry> entries) noexcept {
  const std::lock_guard lock(mutex_);
  peers_.add_states(profile, entries);
}

void Lane::add_own_states(std::span<EvEntry> entries) {
  const std::lock_guard lock(mutex_);
  peers_.add_own_states(entries);
}

void Lane::report_path_events() noexcept {
  engine_.take_narrow_changes(
      [this](const engine::Peer& peer, PlaneMask changed) { peers_.report_narrow(peer, changed); });
  engine_.take_narrow_paths([this](const engine::Peer& peer, path::PathIndex path) {
    if (narrow_paths_logged_ == kMostNarrowPathsLogged) return;
    ++narrow_paths_logged_;
    peers_.report_narrow_path(peer, path);
  });
  engine_.take_piece_changes([this](const engine::Peer& peer, PlaneMask changed) {
    const PlaneMask singly = changed & peer.pieces.singly();
    // The first time: later trials find the same, and so do other lanes.
    const PlaneMask first = singly & ~singly_logged_.fetch_or(singly);
    if (first != 0) peers_.report_singly(peer, first);
  });
  const PlaneMask singly = engine_.planes_sent_singly();
  for (unsigned i = 0; i < planes_.count(); ++i)
    planes_.ports[i]->send_singly((singly >> i & 1) != 0);
  engine_.take_path_events([this](const engine::Peer& peer, const path::PathEvent& event) {
    if (ev_events_.any()) ev_events_.push(peers_.describe(peer, event));
  });
}

}  // namespace mrc::inline v0_1::detail
