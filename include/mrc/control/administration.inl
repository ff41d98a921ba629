// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/administration.hpp"

#include <exception>
#include <optional>
#include <string>

#include "mrc/control/device_control.hpp"
#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/host/lane.hpp"
#include "mrc/host/peers.hpp"

namespace mrc::inline v0_1::detail {

DeviceAdministration::DeviceAdministration(DeviceCore& core) : core_(core) {}
DeviceAdministration::~DeviceAdministration() = default;

void DeviceAdministration::close() noexcept {
  control_.reset();
}

std::unique_ptr<Administration> make_administration(DeviceCore& core) {
  return std::make_unique<DeviceAdministration>(core);
}

DeviceAdministration& administration_of(DeviceCore& core) {
  if (core.administration() == nullptr) throw lacking("profiles and EV events", "them", "control");
  return static_cast<DeviceAdministration&>(*core.administration());
}

std::unique_ptr<Steering> DeviceAdministration::make_steering() {
  return std::make_unique<LaneSteering>(core_.kind());
}

bool DeviceAdministration::at_rest() noexcept {
  const std::unique_lock profiles(changing_profiles_, std::try_to_lock);
  const std::unique_lock rules(changing_rules_, std::try_to_lock);
  return (control_ == nullptr || control_->at_rest()) && profiles.owns_lock() &&
         rules.owns_lock() && profiles_.at_rest() && ev_events_.at_rest();
}

/// Nobody is to lose a device for want of a control socket, or the last files that can be opened to
/// it, unless its folder was named, or dumps are wanted.
void DeviceAdministration::open() {
  open_profiles();
  const Config& config = core_.config();
  if (config.control == "off" && config.dump.empty()) return;
  const bool wanted = config.control != "auto" || !config.dump.empty();
  constexpr std::size_t kLeft = 64;
  if (!wanted && open_files() + kLeft > allowed_files()) {
    core_.log().info("no control socket: fewer than 64 further files can be opened (`ulimit -n`)");
    return;
  }
  try {
    control_ = std::make_unique<DeviceControl>(core_, *this);
    // Nobody would look whether the host's rules have changed.
    if (control_->path().empty() && config.dump.empty()) return control_.reset();
    follow(control_->host_rules());
    if (!control_->path().empty()) core_.log().info("control socket " + control_->path());
  } catch (const std::exception& error) {
    if (wanted) throw;
    core_.log().info(std::string("no control socket: ") + error.what());
  }
}

void DeviceAdministration::follow(const std::shared_ptr<HostRules>& host) noexcept {
  for (const auto& lane : core_.lanes())
    lane->steer([&](Steering& steering) {
      static_cast<LaneSteering&>(steering).follow(host);
      (void)steering.refresh();
    });
}

void DeviceAdministration::set_denied(std::vector<DeniedPaths> denied) {
  for (const DeniedPaths& one : denied) {
    core_.check_plane(one.plane);
    core_.kind().check(one);
  }
  const std::lock_guard changing(changing_rules_);  // the same in all lanes
  for (const auto& lane : core_.lanes())
    lane->steer(
        [&](Steering& steering) { static_cast<LaneSteering&>(steering).own().denied = denied; });
  denied_ = std::move(denied);
}

std::vector<DeniedPaths> DeviceAdministration::denied() {
  const std::lock_guard changing(changing_rules_);
  return denied_;
}

bool DeviceAdministration::can_deny(const DeniedPaths& denied) const try {
  core_.check_plane(denied.plane);
  core_.kind().check(denied);
  return true;
} catch (const Error& error) {
  if (error.code() == Errc::unsupported) return false;
  throw;
}

// DeviceAdministration: profiles.

void DeviceAdministration::open_profiles() {
  ProfileSurroundings around;
  around.planes = core_.plane_count();
  around.seed = core_.config().seed != 0 ? core_.config().seed : core_.guid();
  around.cc = core_.lanes()[0].engine().options().cc;
  around.formats = core_.kind().ev_formats();
  around.check_ev = [this](path::EvMode mode, const ExpandedEv& ev) { check_ev(mode, ev); };
  profiles_.open(std::move(around));
}

/// Throws mrc::Error if no lane can send the EV: lanes differ in the source ports of UDP planes.
/// The paths of a lane do not change, so no lock is needed.
void DeviceAdministration::check_ev(path::EvMode mode, const ExpandedEv& ev) const {
  std::optional<Error> first;
  for (const auto& lane : core_.lanes()) try {
      (void)core_.kind().path_of(lane->planes(), mode, ev, 0);
      return;
    } catch (const Error& error) {
      if (!first) first = error;
    }
  if (first) throw *first;
}

std::vector<ProfileEv> DeviceAdministration::own_evs() const {
  return core_.kind().own_evs(core_.lanes()[0].planes());
}

void DeviceAdministration::on_path_event(Lane& lane, const engine::Peer& peer,
                                         const path::PathEvent& event) noexcept {
  if (!ev_events_.any()) return;
  EvEvent out;
  out.entropy = event.ev;
  out.plane = event.plane;
  out.drop_count = event.dropped;
  out.state = event.health == path::Health::assumed_bad ? EvState::assumed_bad : EvState::good;
  out.ev = lane.planes().profile_ev(event.plane, event.ev);
  if (const Peers::Known* known = lane.peer_table().find(peer.id)) {
    out.profile = known->profiles.ev;
    if (known->evs && event.path < known->evs->entries.size())
      out.ev = known->evs->entries[event.path].ev;
    if (event.plane < known->planes.size()) out.destination = known->planes[event.plane].ip;
  }
  ev_events_.push(out);
}

/// Sets the states of the planes' own EVs, and counts the peers without EV profile towards which
/// they are in these. Under the lane's lock.
void add_own_states(Lane& lane, std::span<EvEntry> entries) {
  std::vector<std::size_t> first(lane.planes().count());  // of each plane
  for (std::size_t i = entries.size(); i-- > 0;) first[entries[i].ev.port - 1u] = i;
  std::vector<bool> seen(entries.size());
  for (const Peers::Known& known : lane.peer_table().known()) {
    const engine::Peer* peer = lane.engine().find_peer(known.id);
    if (known.profiles.ev || peer == nullptr) continue;
    for (std::size_t i = 0; i < peer->paths.size(); ++i) {
      const auto index = static_cast<path::PathIndex>(i);
      const path::PathSpec path = peer->paths[index];
      const std::size_t at = first[path.plane] + path.port_path;
      if (at >= entries.size()) continue;
      EvEntry& entry = entries[at];
      const path::Health health = peer->paths.health(index);
      const bool bad = health == path::Health::assumed_bad;
      entry.good += path::usable(health);
      entry.assumed_bad += bad;
      const EvState state = path::usable(health) ? EvState::good
                            : bad                ? EvState::assumed_bad
                                                 : EvState::denied;
      entry.state = !seen[at] || entry.state == state ? state : EvState::unknown;
      seen[at] = true;
    }
  }
}

/// Adds to the entries of an EV profile towards how many peers of the lane they are in which state.
/// Under the lane's lock.
void add_states(Lane& lane, ProfileId profile, std::span<EvEntry> entries) noexcept {
  for (const Peers::Known& known : lane.peer_table().known()) {
    const engine::Peer* peer = lane.engine().find_peer(known.id);
    if (known.profiles.ev != profile || peer == nullptr || peer->paths.size() != entries.size())
      continue;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const path::Health health = peer->paths.health(static_cast<path::PathIndex>(i));
      entries[i].good += path::usable(health);
      entries[i].assumed_bad += health == path::Health::assumed_bad;
    }
  }
}

std::vector<EvEntry> DeviceAdministration::own_ev_entries() const {
  const std::vector<ProfileEv> evs = own_evs();
  std::vector<EvEntry> entries(evs.size());
  for (std::size_t i = 0; i < evs.size(); ++i) entries[i].ev = evs[i];
  Lane& lane = core_.lanes()[0];
  const std::lock_guard lock(lane.mutex());
  add_own_states(lane, entries);
  return entries;
}

void DeviceAdministration::change_format_profile(ProfileId id, const FormatProfileChange& change) {
  profiles_.with([&](ProfileRegistry& profiles) { profiles.change_format(id, change); });
}

void DeviceAdministration::change_cc_profile(ProfileId id, const CcProfileChange& change) {
  profiles_.change_cc(id, change);
}

/// The EV profile of a peer has changed: so do the paths to it. Under the lane's lock.
void update_paths(Lane& lane, Time now, Peers::Known& known, const EvUpdate& update) noexcept try {
  const EvTable& evs = *update.table;
  OpenedPlanes& own = lane.planes();
  Peers& peers = lane.peer_table();
  known.evs = update.table;
  const PlaneMask planes = lane.engine().find_peer(known.id)->planes;
  for (std::size_t i = 0; !update.replaced.empty() && i < own.count(); ++i) {
    if ((planes >> i & 1) == 0) continue;
    const auto plane = static_cast<Plane>(i);
    PeerRoute route = peers.route_to(known, plane);
    if (known.foreign) (void)own.kind->keep_real_header(own, plane, route);
    if (known.takes_heads) (void)own.kind->take_heads(own, plane, known.planes[i], route);
    peers.add_to_port(known.id, plane, route);
  }
  const auto health = [](bool denied) {
    return denied ? path::Health::denied : path::Health::good;
  };
  (void)lane.engine().change_paths(now, known.id, [&](path::PathSet& paths) {
    paths.set_event_mask(evs.event_mask);
    for (const auto& written : update.written)
      if (std::find(update.replaced.begin(), update.replaced.end(), written.path) ==
          update.replaced.end())
        (void)paths.set_health(written.path, health(written.denied));
    for (const path::PathIndex i : update.replaced) {
      const EvTable::Entry& entry = evs.entries[i];
      std::erase(known.not_sendable, i);
      try {
        const path::PathSpec spec = own.kind->path_of(own, evs.format, entry.expanded, i);
        (void)paths.replace(i, spec, health(entry.denied), now);
      } catch (const Error& error) {  // the ports of another lane can send it
        (void)paths.set_health(i, path::Health::denied);
        known.not_sendable.push_back(i);
        lane.log().warn("peer " + known.name + ": an EV is denied: " + error.what());
      }
    }
  });
  peers.deny_paths(now, known);
} catch (const std::exception& error) {  // out of memory: the paths stay as they are
  lane.log().warn("peer " + known.name + ": EV profile " + std::to_string(update.table->profile) +
                  ": " + error.what());
}

void DeviceAdministration::follow(Lane& lane, Time now) noexcept try {
  const auto& steering = static_cast<const LaneSteering&>(lane.steering());
  for (const std::string& line : profiles_.follow(steering.host_state())) lane.log().warn(line);
  for (Peers::Known& known : lane.peer_table().known()) {
    if (!known.evs || !known.profiles.ev) continue;
    const EvTablePtr is = table(*known.profiles.ev);
    if (is && is != known.evs) update_paths(lane, now, known, changes(*known.evs, is));
  }
} catch (const std::exception& error) {  // out of memory: profiles stay as they are
  lane.log().warn(std::string("the profiles for this host have changed: ") + error.what());
}

void DeviceAdministration::change_ev_profile(ProfileId id, const EvProfileChange& change) {
  const std::lock_guard changing(changing_profiles_);
  const auto changed = profiles_.change_evs(id, change);
  if (changed.update.table)
    for (const auto& lane : core_.lanes()) {
      const std::lock_guard lock(lane->mutex());
      const Time now = monotonic_now();
      for (Peers::Known& known : lane->peer_table().known())
        if (known.profiles.ev == changed.update.table->profile && known.evs != changed.update.table)
          update_paths(*lane, now, known, changed.update);
      lane->rounds().after_post(now, false);  // packets may have waited for a path
      lane->progress().deadline_changed();
    }
  if (changed.error) std::rethrow_exception(changed.error);
}

/// An entry is GOOD or ASSUMED_BAD if it is so towards every destination.
EvProfileInfo DeviceAdministration::ev_profile(ProfileId id, bool of_host) {
  const std::lock_guard changing(changing_profiles_);
  const auto known = [id](const ProfileRegistry& profiles) { return profiles.evs(id); };
  EvProfileInfo info = of_host ? profiles_.with_host(known) : profiles_.with(known);
  for (const auto& lane : core_.lanes()) {
    const std::lock_guard lock(lane->mutex());
    add_states(*lane, id, info.entries);
  }
  for (EvEntry& entry : info.entries)
    if (entry.state != EvState::denied && entry.assumed_bad > 0)
      entry.state = entry.good > 0 ? EvState::unknown : EvState::assumed_bad;
  return info;
}

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1 {

// Device: profiles and EV events, thin covers over DeviceAdministration.

void Device::modify_format_profile(ProfileId id, const FormatProfileChange& change) {
  detail::administration_of(detail::core_of(core_)).change_format_profile(id, change);
}
FormatProfileInfo Device::query_format_profile(ProfileId id) const {
  return detail::administration_of(detail::core_of(core_))
      .profiles()
      .with([id](const detail::ProfileRegistry& profiles) { return profiles.format(id); });
}
void Device::modify_ev_profile(ProfileId id, const EvProfileChange& change) {
  detail::administration_of(detail::core_of(core_)).change_ev_profile(id, change);
}
EvProfileInfo Device::query_ev_profile(ProfileId id) const {
  return detail::administration_of(detail::core_of(core_)).ev_profile(id);
}
void Device::modify_cc_profile(ProfileId id, const CcProfileChange& change) {
  detail::administration_of(detail::core_of(core_)).change_cc_profile(id, change);
}
CcProfileInfo Device::query_cc_profile(ProfileId id) const {
  return detail::administration_of(detail::core_of(core_))
      .profiles()
      .with([id](const detail::ProfileRegistry& profiles) { return profiles.cc(id); });
}
ProfileLimits Device::profile_limits() const {
  return detail::administration_of(detail::core_of(core_))
      .profiles()
      .with([](const detail::ProfileRegistry& profiles) { return profiles.limits(); });
}

std::vector<EvEntry> Device::own_evs() const {
  return detail::administration_of(detail::core_of(core_)).own_ev_entries();
}

EvEventStream Device::create_ev_event_stream(std::uint32_t depth) {
  constexpr std::uint32_t kMost = 1u << 20;
  if (depth == 0 || depth > kMost)
    throw Error(Errc::invalid_argument, "the depth of an EV event stream is " +
                                            std::to_string(depth) + ", allowed are 1 to " +
                                            std::to_string(kMost));
  auto events = std::make_shared<detail::EvEventQueue>(depth);
  detail::administration_of(detail::core_of(core_)).ev_events().add(events);
  return EvEventStream(std::move(events));
}

EvEventStream::EvEventStream(std::shared_ptr<detail::EvEventQueue> events)
    : events_(std::move(events)) {}
int EvEventStream::fd() const noexcept {
  return events_ ? events_->fd() : -1;
}
std::size_t EvEventStream::poll(std::span<EvEvent> out) noexcept {
  return events_ ? events_->poll(out) : 0;
}
void EvEventStream::push(const EvEvent& event) noexcept {
  if (events_) events_->push(event);
}

}  // namespace mrc::inline v0_1
