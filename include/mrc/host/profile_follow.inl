// SPDX-License-Identifier: Apache-2.0
// ProfileRegistry: profiles that hold for all devices of a host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "mrc/host/ev_profile.inl"
#include "mrc/host/profile_registry.hpp"
#include "mrc/host/profile_registry.inl"

namespace mrc::inline v0_1::detail {

/// Throws unless profiles of a set can be in that state: in INIT they are not in the set.
inline void require_state(const char* kind, ProfileId id, ProfileState state) {
  if (id == 0)
    bad_profile(kind, id, Errc::invalid_argument, "0 is the device's own, which does not change");
  if (state != ProfileState::offline && state != ProfileState::online)
    bad_profile(kind, id, Errc::invalid_argument, "its state is neither OFFLINE nor ONLINE");
}

ProfileSet ProfileRegistry::set() const {
  ProfileSet set;
  set.formats = formats_;
  for (const auto& [id, evs] : evs_) set.evs.emplace(id, evs);
  for (const auto& [id, cc] : ccs_) set.ccs.emplace(id, cc);
  return set;
}

void ProfileRegistry::put_format(ProfileId id, const Format& wanted) {
  require_state("format", id, wanted.state);
  require_set("format", id, wanted.mode.has_value(), "its mode is not set");
  if (wanted.state == ProfileState::online) require_format(id, wanted);
  store("format", formats_, id, wanted, limits_.max_format_profiles);
}

/// `before`: what it is now, if it exists. Its table stays if nothing changes.
ProfileRegistry::Evs ProfileRegistry::followed(ProfileId id, const ProfileSet::Evs& wanted,
                                               const Evs* before, bool same_format) const {
  require_state("EV", id, wanted.state);
  if (before != nullptr && same_format && wanted == *before) return *before;
  if (before != nullptr && before->users > 0 &&
      (wanted.state != ProfileState::online || !same_format || wanted.mode != before->mode ||
       wanted.format != before->format || wanted.ev_count != before->ev_count ||
       wanted.min_active != before->min_active))
    bad_evs(id, Errc::in_use, "queue pairs use it");
  Evs next{wanted, nullptr, before != nullptr ? before->users : 0};
  // The array has its size, and GENERATED ones their EVs, unless the set has them.
  EvProfileChange attributes;
  attributes.ev_count = wanted.ev_count;
  attributes.event_mask = wanted.event_mask;
  next.state = ProfileState::offline;
  const std::vector<Entry> entries = std::exchange(next.entries, {});
  set_attributes(id, next, attributes);
  if (!entries.empty()) {
    if (entries.size() != next.entries.size())
      bad_evs(id, Errc::invalid_argument,
              "it has " + std::to_string(entries.size()) + " EVs, not as many as it says");
    next.entries = entries;
    for (const Entry& entry : entries)
      if (entry.ev.port > around_.planes || (populated(entry.ev) && entry.ev.port == 0))
        bad_evs(id, Errc::invalid_argument,
                "port " + std::to_string(entry.ev.port) + " does not exist, ports are 1 to " +
                    std::to_string(around_.planes));
  }
  require_complete(id, next, ProfileState::offline);
  if (wanted.state == ProfileState::online) {
    require_complete(id, next, ProfileState::online);
    if (before != nullptr && before->entries.size() == next.entries.size())
      next.table = before->table;  // entries that stay keep their names
    next.table = make_table(id, next);
  }
  next.state = wanted.state;
  return next;
}

ProfileRegistry::Cc ProfileRegistry::followed(ProfileId id, const ProfileSet::Cc& wanted,
                                              const Cc* before) const {
  require_state("CC", id, wanted.state);
  if (before != nullptr && wanted == *before) return *before;
  if (before != nullptr && before->users > 0)
    bad_profile("CC", id, Errc::in_use, "queue pairs use it");
  require_set("CC", id, wanted.algorithm.has_value(), "its algorithm is not set");
  if (wanted.state == ProfileState::online)
    require_set("CC", id, wanted.config.has_value(), "its configuration is not set");
  if (wanted.config)
    (void)cc::Controller(with_profile(around_.cc, *wanted.algorithm, *wanted.config));
  return {wanted, 0};
}

/// A profile that stays as it is, but for the states that the set writes to its EVs.
ProfileRegistry::Evs ProfileRegistry::kept(ProfileId id, const Evs& evs,
                                           const ProfileSet& set) const {
  const auto wanted = set.evs.find(id);
  if (wanted == set.evs.end()) return evs;
  const std::vector<Entry>& entries = wanted->second.entries;
  EvNumbers written;  // places in `entries`
  for (std::size_t i = 0; i < entries.size(); ++i)
    written[{entries[i].ev.value, entries[i].ev.port}] = i;
  Evs next = evs;
  bool changed = false;
  for (Entry& entry : next.entries) {
    const auto at = written.find({entry.ev.value, entry.ev.port});
    if (at == written.end() || entries[at->second] == entry) continue;
    entry = entries[at->second];
    changed = true;
  }
  if (changed && next.state == ProfileState::online) next.table = make_table(id, next);
  return next;
}

void ProfileRegistry::follow(const ProfileSet& set,
                             const std::function<void(const Failure&)>& failed) {
  using Kind = Failure::Kind;
  ProfileRegistry next(around_);
  const auto keep_format = [&](ProfileId id) {
    if (const auto at = formats_.find(id); at != formats_.end()) next.formats_[id] = at->second;
  };
  const auto keep_evs = [&](ProfileId id, const Evs& evs) {
    if (evs.format) keep_format(*evs.format);
    next.evs_.insert_or_assign(id, kept(id, evs, set));
  };
  const auto in_use = [](const char* kind, ProfileId id) {
    return Error(Errc::in_use,
                 std::string(kind) + " profile " + std::to_string(id) + ": queue pairs use it");
  };

  for (const auto& [id, wanted] : set.formats) try {
      next.put_format(id, wanted);
    } catch (const Error& error) {
      failed({Kind::format, id, false, error});
      keep_format(id);
    }
  for (const auto& [id, wanted] : set.evs) {
    const auto at = evs_.find(id);
    const Evs* before = at == evs_.end() ? nullptr : &at->second;
    const auto format = [&wanted = wanted](const ProfileRegistry& of) {
      return wanted.format ? copy_of(of.formats_, *wanted.format) : Format{};
    };
    try {
      store("EV", next.evs_, id, next.followed(id, wanted, before, format(*this) == format(next)),
            limits_.max_ev_profiles);
    } catch (const Error& error) {
      failed({Kind::evs, id, before != nullptr && before->users > 0, error});
      if (before != nullptr) keep_evs(id, *before);
    }
  }
  for (const auto& [id, wanted] : set.ccs) {
    const auto at = ccs_.find(id);
    const Cc* before = at == ccs_.end() ? nullptr : &at->second;
    try {
      store("CC", next.ccs_, id, next.followed(id, wanted, before), limits_.max_cc_profiles);
    } catch (const Error& error) {
      failed({Kind::cc, id, before != nullptr && before->users > 0, error});
      if (before != nullptr) next.ccs_.insert_or_assign(id, *before);
    }
  }
  for (const auto& [id, evs] : evs_) {
    if (set.evs.contains(id) || evs.users == 0) continue;
    failed({Kind::evs, id, true, in_use("EV", id)});
    keep_evs(id, evs);
  }
  for (const auto& [id, cc] : ccs_) {
    if (set.ccs.contains(id) || cc.users == 0) continue;
    failed({Kind::cc, id, true, in_use("CC", id)});
    next.ccs_.insert_or_assign(id, cc);
  }
  formats_ = std::move(next.formats_);
  evs_ = std::move(next.evs_);
  ccs_ = std::move(next.ccs_);
}

}  // namespace mrc::inline v0_1::detail
