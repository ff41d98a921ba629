// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "mrc/host/profiles.hpp"

namespace mrc::inline v0_1::detail {

ProfileRegistry::EvChanged Profiles::change_evs(ProfileId id, const EvProfileChange& change) {
  const std::lock_guard lock(mutex_);
  if (!own_->has_evs(id) && host_->evs(id).queue_pairs > 0)
    throw Error(Errc::in_use, "EV profile " + std::to_string(id) +
                                  ": queue pairs use the host's profile of this number");
  return own_->change_evs(id, change);
}

void Profiles::change_cc(ProfileId id, const CcProfileChange& change) {
  const std::lock_guard lock(mutex_);
  if (!own_->has_cc(id) && host_->cc(id).queue_pairs > 0)
    throw Error(Errc::in_use, "CC profile " + std::to_string(id) +
                                  ": queue pairs use the host's profile of this number");
  own_->change_cc(id, change);
}

std::vector<std::string> Profiles::follow(const HostState& host) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines, not_followed;
  if (followed_ == host.serial) return lines;
  if (set_ == host.profiles || (set_ && *set_ == *host.profiles)) {
    followed_ = host.serial;
    return lines;
  }
  host_->follow(*host.profiles, [&](const ProfileRegistry::Failure& failure) {
    lines.push_back(std::string("of the profiles for this host, this device can't have ") +
                    words_of(failure.error));
    if (failure.in_use) not_followed.emplace_back(words_of(failure.error));
  });
  followed_ = host.serial;
  set_ = host.profiles;
  not_followed_ = std::move(not_followed);
  for (const auto& [id, evs] : set_->evs)
    if (own_->has_evs(id))
      lines.push_back("EV profile " + std::to_string(id) +
                      ": the program's own counts, not that of the host");
  for (const auto& [id, cc] : set_->ccs)
    if (own_->has_cc(id))
      lines.push_back("CC profile " + std::to_string(id) +
                      ": the program's own counts, not that of the host");
  return lines;
}

std::vector<std::string> Profiles::not_followed() {
  const std::lock_guard lock(mutex_);
  return not_followed_;
}

unsigned Profiles::check(const ProfileSet& set, bool evs_are_own) {
  using Kind = ProfileRegistry::Failure::Kind;
  const std::lock_guard lock(mutex_);
  const ProfileSet none;
  const ProfileSet& now = set_ ? *set_ : none;
  const auto same = [](const auto& a, const auto& b, ProfileId id) {
    const auto one = a.find(id), other = b.find(id);
    return one != a.end() && other != b.end() ? one->second == other->second
                                              : one == a.end() && other == b.end();
  };
  const auto unchanged = [&](Kind kind, ProfileId id) {
    if (kind == Kind::format) return same(now.formats, set.formats, id);
    if (kind == Kind::cc) return same(now.ccs, set.ccs, id);
    const auto evs = set.evs.find(id);
    const bool format = evs == set.evs.end() || !evs->second.format ||
                        same(now.formats, set.formats, *evs->second.format);
    return format && same(now.evs, set.evs, id);
  };
  ProfileRegistry then = *host_;
  unsigned without = 0;
  then.follow(set, [&](const ProfileRegistry::Failure& failure) {
    const bool others = evs_are_own && !failure.in_use && failure.kind == Kind::evs &&
                        failure.error.code() == make_error_code(Errc::unsupported);
    if (!others && !unchanged(failure.kind, failure.id)) throw failure.error;
    ++without;
  });
  return without;
}

// ------------------------------------------------------------------------------- queue pairs

void Profiles::acquire(const QpProfiles& profiles) {
  const std::lock_guard lock(mutex_);
  const QpProfiles evs{profiles.ev, {}}, cc{{}, profiles.cc};
  if (profiles.ev) of_evs(*profiles.ev).acquire(evs);
  if (!profiles.cc) return;
  try {
    of_cc(*profiles.cc).acquire(cc);
  } catch (...) {
    if (profiles.ev) of_evs(*profiles.ev).release(evs);
    throw;
  }
}

void Profiles::release(const QpProfiles& profiles) noexcept {
  const std::lock_guard lock(mutex_);
  if (profiles.ev) of_evs(*profiles.ev).release({profiles.ev, {}});
  if (profiles.cc) of_cc(*profiles.cc).release({{}, profiles.cc});
}

EvTablePtr Profiles::table(ProfileId id) noexcept {
  const std::lock_guard lock(mutex_);
  return of_evs(id).table(id);
}

cc::Options Profiles::cc_options(ProfileId id) {
  const std::lock_guard lock(mutex_);
  return of_cc(id).cc_options(id);
}

}  // namespace mrc::inline v0_1::detail
