// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "mrc/host/profile_registry.hpp"

namespace mrc::inline v0_1::detail {

/// Throws the error of a profile.
[[noreturn]] inline void bad_profile(const char* kind, ProfileId id, Errc code,
                                     const std::string& what) {
  throw Error(code, std::string(kind) + " profile " + std::to_string(id) + ": " + what);
}

/// The name of a state, as in the API.
[[nodiscard]] const char* to_string(ProfileState state) noexcept {
  constexpr const char* kNames[] = {"INIT", "OFFLINE", "ONLINE"};
  return state <= ProfileState::online ? kNames[static_cast<int>(state)] : "no state";
}

/// Throws unless profiles can go from `from` to `to` in one step.
void require_step(const char* kind, ProfileId id, ProfileState from, ProfileState to) {
  using enum ProfileState;
  const bool allowed = (from == init && to == offline) || (from == offline && to != offline) ||
                       (from == online && to == offline);
  if (!allowed || to > online)
    bad_profile(kind, id, Errc::invalid_argument,
                std::string("it can't go from ") + to_string(from) + " to " + to_string(to));
}

/// Throws unless `ok`, as something is missing on the way to a state.
void require_set(const char* kind, ProfileId id, bool ok, const std::string& what) {
  if (!ok) bad_profile(kind, id, Errc::invalid_argument, what);
}

/// A format profile that has mode and fields. SRv6 needs an SRH for more than 128 bits.
[[nodiscard]] path::EvFormatProfile packed(const ProfileSet::Format& profile) {
  path::EvFormatProfile format{*profile.mode, false, *profile.fields};
  unsigned width = 0;
  for (const path::FormatField& field : format.fields) width += field.width;
  format.srh = format.mode == path::EvMode::srv6 && width > 128;
  return format;
}

/// The entry of a map, or a fresh one outside of it.
template <class T>
[[nodiscard]] T copy_of(const std::map<ProfileId, T>& map, ProfileId id) {
  const auto at = map.find(id);
  return at == map.end() ? T{} : at->second;
}

/// Stores a profile, or removes one that has returned to INIT. Throws if there is no room.
template <class T>
void store(const char* kind, std::map<ProfileId, T>& map, ProfileId id, T profile,
           std::size_t most) {
  if (profile.state == ProfileState::init) {
    map.erase(id);
    return;
  }
  if (map.size() >= most && !map.contains(id))
    bad_profile(kind, id, Errc::no_resources, "there are " + std::to_string(most) + " already");
  map.insert_or_assign(id, std::move(profile));
}

/// What a format profile must have to be ONLINE.
void require_format(ProfileId id, const ProfileSet::Format& profile) {
  constexpr const char* kKind = "format";
  require_set(kKind, id, profile.fields.has_value(), "its fields are not set");
  const path::EvFormatProfile format = packed(profile);
  unsigned width = 0;
  for (const path::FormatField& field : format.fields) width += field.width;
  if (const Errc e = path::check(format); e != Errc::ok)
    bad_profile(kKind, id, e,
                "its fields have " + std::to_string(width) + " bits, its mode allows " +
                    std::to_string(path::ev_max_width(format.mode, format.srh)));
}

void ProfileRegistry::change_format(ProfileId id, const FormatProfileChange& change) {
  constexpr const char* kKind = "format";
  Format next = copy_of(formats_, id);
  if (next.state == ProfileState::online && (change.mode || change.fields))
    bad_profile(kKind, id, Errc::invalid_state, "it is ONLINE, take it OFFLINE first");
  if (change.mode) next.mode = change.mode;
  if (change.fields) next.fields = change.fields;
  if (!change.state && next.state == ProfileState::init)
    bad_profile(kKind, id, Errc::invalid_argument,
                "it is in INIT: set it OFFLINE in the same call");
  if (change.state) {
    require_step(kKind, id, next.state, *change.state);
    const bool used = std::any_of(evs_.begin(), evs_.end(), [&](const auto& entry) {
      const Evs& evs = entry.second;
      return evs.format == id &&
             (*change.state == ProfileState::init || evs.state == ProfileState::online);
    });
    if (used && *change.state != ProfileState::online)
      bad_profile(kKind, id, Errc::in_use, "an EV profile uses it");
    require_set(kKind, id, next.mode.has_value(), "its mode is not set");
    if (*change.state == ProfileState::online) require_format(id, next);
    next.state = *change.state;
  }
  store(kKind, formats_, id, std::move(next), limits_.max_format_profiles);
}

FormatProfileInfo ProfileRegistry::format(ProfileId id) const {
  const Format format = copy_of(formats_, id);
  return {format.state, format.mode, format.fields.value_or(std::vector<path::FormatField>())};
}

// ---------------------------------------------------------------------------------------- CC

/// The device's options with those of a profile in their place.
[[nodiscard]] cc::Options with_profile(cc::Options options, cc::Algorithm algorithm,
                                       const CcConfig& c) {
  options.algorithm = algorithm;
  cc::NsccOptions& n = options.nscc;
  const auto take = [](auto& option, const auto& value) {
    if (value) option = *value;
  };
  take(n.disable_qa, c.disable_qa);
  take(n.adjust_bytes, c.adjust_bytes_threshold);
  take(n.adjust_period, c.adjust_period_threshold);
  take(n.base_rtt, c.base_rtt);
  if (c.base_rtt) n.base_rtt_floor = std::min(n.base_rtt_floor, *c.base_rtt);
  take(n.eta, c.eta);
  take(n.fi, c.fi);
  take(n.fi_scale, c.fi_scale);
  take(n.gamma, c.gamma);
  take(n.max_md_jump, c.max_md_jump);
  take(n.max_cwnd, c.max_cwnd);
  take(options.fixed_window, c.max_cwnd);
  take(n.qa_gate, c.qa_gate);
  take(n.qa_threshold, c.qa_threshold);
  take(n.target_delay, c.target_delay);
  return options;
}

void ProfileRegistry::change_cc(ProfileId id, const CcProfileChange& change) {
  constexpr const char* kKind = "CC";
  Cc next = copy_of(ccs_, id);
  if (next.state == ProfileState::online && (change.algorithm || change.config))
    bad_profile(kKind, id, Errc::invalid_state, "it is ONLINE, take it OFFLINE first");
  if (change.algorithm) next.algorithm = change.algorithm;
  if (change.config) next.config = change.config;
  if (!change.state && next.state == ProfileState::init)
    bad_profile(kKind, id, Errc::invalid_argument,
                "it is in INIT: set it OFFLINE in the same call");
  if (next.algorithm && next.config)
    (void)cc::Controller(
        with_profile(around_.cc, *next.algorithm, *next.config));  // names what is wrong
  if (change.state) {
    require_step(kKind, id, next.state, *change.state);
    if (next.users > 0) bad_profile(kKind, id, Errc::in_use, "queue pairs use it");
    require_set(kKind, id, next.algorithm.has_value(), "its algorithm is not set");
    if (*change.state == ProfileState::online)
      require_set(kKind, id, next.config.has_value(), "its configuration is not set");
    next.state = *change.state;
  }
  store(kKind, ccs_, id, next, limits_.max_cc_profiles);
}

CcProfileInfo ProfileRegistry::cc(ProfileId id) const {
  const Cc cc = copy_of(ccs_, id);
  return {cc.state, cc.algorithm, cc.config, cc.users};
}

cc::Options ProfileRegistry::cc_options(ProfileId id) const {
  const Cc cc = copy_of(ccs_, id);
  return cc.state == ProfileState::online ? with_profile(around_.cc, *cc.algorithm, *cc.config)
                                          : around_.cc;
}

// ------------------------------------------------------------------------------------- users

void ProfileRegistry::acquire(const QpProfiles& profiles) {
  const auto usable = [](const char* kind, auto& map, const std::optional<ProfileId>& id) {
    if (!id) return map.end();
    const auto at = map.find(*id);
    if (at == map.end() || at->second.state != ProfileState::online)
      bad_profile(kind, *id, at == map.end() ? Errc::not_found : Errc::invalid_state,
                  "it is not ONLINE, so queue pairs can't use it");
    return at;
  };
  const auto evs = usable("EV", evs_, profiles.ev);
  const auto cc = usable("CC", ccs_, profiles.cc);
  if (evs != evs_.end()) ++evs->second.users;
  if (cc != ccs_.end()) ++cc->second.users;
}

void ProfileRegistry::release(const QpProfiles& profiles) noexcept {
  if (profiles.ev) --evs_.at(*profiles.ev).users;
  if (profiles.cc) --ccs_.at(*profiles.cc).users;
}

EvTablePtr ProfileRegistry::table(ProfileId id) const noexcept {
  const auto at = evs_.find(id);
  return at == evs_.end() ? nullptr : at->second.table;
}

std::size_t ProfileRegistry::evs_in_use() const noexcept {
  std::size_t n = 0;
  for (const auto& [id, evs] : evs_) n += evs.entries.size();
  return n;
}

ProfileLimits ProfileRegistry::limits() const noexcept {
  ProfileLimits limits = limits_;
  limits.free_evs = limits.max_evs - static_cast<std::uint32_t>(evs_in_use());
  limits.formats = around_.formats;
  return limits;
}

}  // namespace mrc::inline v0_1::detail
