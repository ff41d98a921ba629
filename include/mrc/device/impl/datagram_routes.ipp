// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <exception>
#include <utility>

#include "mrc/device/datagram_routes.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP DatagramRoutes::Plan DatagramRoutes::plan(const port::IpAddress& gid, Qpn qpn) const {
  if (port::is_unspecified(gid))
    throw Error(Errc::unreachable, "GID " + port::format_ip(gid) + " names no device");
  filter_.check(gid);
  auto contacts = planes_.paths->contacts(gid, qpn);
  const Plane nearest = planes_.paths->nearest(gid, contacts);
  std::stable_partition(contacts.begin(), contacts.end(),
                        [nearest](const Contact& c) { return c.plane == nearest; });
  Plan plan;
  for (const Contact& contact : contacts) {
    PlanePaths paths = planes_.paths->paths_to(contact.plane, contact.address, {});
    paths.specs.resize(std::min(paths.specs.size(), paths.active));  // without backups
    if (real_header_) (void)planes_.paths->keep_real_header(contact.plane, paths.route);
    if (!paths.specs.empty()) plan.ways.push_back({contact.plane, std::move(paths)});
  }
  if (plan.ways.empty())
    throw Error(Errc::unreachable,
                "GID " + port::format_ip(gid) + ": " + planes_.paths->why_none());
  return plan;
}

MRC_SETUP Result<engine::DestinationId> DatagramRoutes::find(const port::IpAddress& gid,
                                                             Qpn qpn) noexcept try {
  const Key key{gid, slot_of(qpn)};
  if (const auto known = by_key_.find(key); known != by_key_.end())
    return entries_[known->second].id;
  Plan plan = this->plan(gid, qpn);
  const Result<std::size_t> at = place();
  if (!at) return at.error();
  engine::DestinationSpec spec;
  spec.peer = peer_of(at.value());
  Entry entry{key, {}, {}, true};
  for (Plan::Way& way : plan.ways) {
    planes_.ports[way.plane]->add_peer(spec.peer, way.paths.route);
    entry.planes.push_back(way.plane);
    spec.paths.insert(spec.paths.end(), way.paths.specs.begin(), way.paths.specs.end());
  }
  Result<engine::DestinationId> id = engine_.add_destination(spec);
  if (!id) return id;
  entry.id = *id;
  if (at.value() == entries_.size()) entries_.emplace_back();
  entries_[at.value()] = std::move(entry);
  by_key_.emplace(key, at.value());
  return id;
} catch (const Error& error) {
  return error.code() == Errc::no_resources ? Errc::no_resources : Errc::unreachable;
} catch (const std::exception&) {
  return Errc::no_resources;  // out of memory
}

/// A place in entries_ that is free, or behind the last one.
MRC_SETUP Result<std::size_t> DatagramRoutes::place() {
  if (entries_.size() < kMost) return entries_.size();
  for (std::size_t n = 0; n < entries_.size(); ++n) {
    const std::size_t at = std::exchange(oldest_, (oldest_ + 1) % entries_.size());
    if (entries_[at].live && engine_.remove_destination(entries_[at].id) != Errc::ok) continue;
    forget(at);
    return at;
  }
  return Errc::no_resources;
}

MRC_SETUP void DatagramRoutes::forget(std::size_t place) noexcept {
  Entry& entry = entries_[place];
  if (!entry.live) return;
  for (const Plane plane : entry.planes) planes_.ports[plane]->remove_peer(peer_of(place));
  by_key_.erase(entry.key);
  entry = {};
}

}  // namespace mrc::inline v0_1::detail
