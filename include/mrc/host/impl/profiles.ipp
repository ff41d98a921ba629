// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "mrc/host/profiles.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP ProfileRegistry::EvChanged Profiles::change_evs(ProfileId id,
                                                          const EvProfileChange& change) {
  const std::lock_guard lock(mutex_);
  if (!own_->has_evs(id) && host_->evs(id).queue_pairs > 0)
    throw Error(Errc::in_use, "EV profile " + std::to_string(id) +
                                  ": queue pairs use the host's profile of this number");
  return own_->change_evs(id, change);
}

MRC_SETUP void Profiles::change_cc(ProfileId id, const CcProfileChange& change) {
  const std::lock_guard lock(mutex_);
  if (!own_->has_cc(id) && host_->cc(id).queue_pairs > 0)
    throw Error(Errc::in_use, "CC profile " + std::to_string(id) +
                                  ": queue pairs use the host's profile of this number");
  own_->change_cc(id, change);
}

MRC_SETUP std::vector<std::string> Profiles::follow(const HostState& host) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  if (followed_ == host.serial) return lines;
  followed_ = host.serial;
  if (set_ == host.profiles || (set_ && *set_ == *host.profiles)) return lines;
  set_ = host.profiles;
  host_->follow(*set_, [&](const Error& error) {
    lines.push_back(std::string("of the profiles for this host, this device can't have ") +
                    error.what());
  });
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

MRC_SETUP unsigned Profiles::check(const ProfileSet& set, bool evs_are_own) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> known;  // what it can't have of the present ones
  ProfileRegistry now = *host_;
  if (set_) now.follow(*set_, [&](const Error& error) { known.emplace_back(error.what()); });
  ProfileRegistry then = *host_;
  unsigned without = 0;
  then.follow(set, [&](const Error& error) {
    const bool own = evs_are_own && error.code() == make_error_code(Errc::unsupported);
    if (!own && std::find(known.begin(), known.end(), error.what()) == known.end()) throw error;
    ++without;
  });
  return without;
}

// ------------------------------------------------------------------------------- queue pairs

MRC_SETUP void Profiles::acquire(const QpProfiles& profiles) {
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

MRC_SETUP void Profiles::release(const QpProfiles& profiles) noexcept {
  const std::lock_guard lock(mutex_);
  if (profiles.ev) of_evs(*profiles.ev).release({profiles.ev, {}});
  if (profiles.cc) of_cc(*profiles.cc).release({{}, profiles.cc});
}

MRC_SETUP EvTablePtr Profiles::table(ProfileId id) noexcept {
  const std::lock_guard lock(mutex_);
  return of_evs(id).table(id);
}

MRC_SETUP cc::Options Profiles::cc_options(ProfileId id) {
  const std::lock_guard lock(mutex_);
  return of_cc(id).cc_options(id);
}

}  // namespace mrc::inline v0_1::detail
