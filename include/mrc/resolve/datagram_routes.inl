// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <exception>
#include <utility>

#include "mrc/resolve/datagram_routes.hpp"

namespace mrc::inline v0_1::detail {

/// Answers to a question are awaited for this long, and then
inline constexpr Duration kDatagramAnswers = std::chrono::milliseconds(50);
/// the next one follows after this.
inline constexpr Duration kDatagramQuestions = std::chrono::seconds(1);

DatagramRoutes::Plan DatagramRoutes::plan(const port::IpAddress& gid, Qpn qpn) const {
  if (port::is_unspecified(gid))
    throw Error(Errc::unreachable, "GID " + port::format_ip(gid) + " names no device");
  filter_.check(gid);
  auto contacts = planes_.kind->ways(planes_, gid, qpn, 0, {});
  const Plane nearest = planes_.kind->nearest(planes_, gid, contacts);
  std::stable_partition(contacts.begin(), contacts.end(), [&](const Contact& c) {
    return c.plane == nearest && c.address.ip == gid;
  });
  Plan plan;
  for (const Contact& contact : contacts) {
    PlanePaths paths = planes_.kind->paths_to(planes_, contact.plane, contact.address, {});
    paths.specs.resize(std::min(paths.specs.size(), paths.active));  // without backups
    if (!asks_) (void)planes_.kind->keep_real_header(planes_, contact.plane, paths.route);
    if (!paths.specs.empty()) plan.ways.push_back({contact, std::move(paths)});
  }
  if (plan.ways.empty())
    throw Error(Errc::unreachable, "GID " + port::format_ip(gid) + ": " + planes_.kind->why_none());
  return plan;
}

Result<engine::DestinationId> DatagramRoutes::find(Time now, const port::IpAddress& gid, Qpn qpn,
                                                   Qpn own) noexcept try {
  const Key key{gid, slot_of(qpn)};
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    Entry& entry = entries_[known->second];
    if (entry.next <= now) look_after(now, entry, qpn, own);
    return entry.id;
  }
  Plan plan = this->plan(gid, qpn);
  const Result<std::size_t> at = place();
  if (!at) return at.error();
  engine::DestinationSpec spec;
  spec.peer = peer_of(at.value());
  PlaneMask entered = 0;
  for (Way& way : plan.ways) {
    const PlaneMask bit = plane_bit(way.contact.plane);
    if ((entered & bit) != 0) continue;  // the likeliest address in each plane
    entered |= bit;
    planes_.ports[way.contact.plane]->add_peer(spec.peer, way.paths.route);
    spec.paths.insert(spec.paths.end(), way.paths.specs.begin(), way.paths.specs.end());
  }
  Result<engine::DestinationId> id = engine::add_destination(engine_, spec);
  if (!id) return id;
  engine::set_destination_paths(engine_, *id, allowed_paths(plan.ways));
  Entry entry{key, *id, std::move(plan.ways)};
  entry.live = true;
  entry.next = asks_ && entry.ways.size() > 1 ? now : kNever;
  if (at.value() == entries_.size()) entries_.emplace_back();
  entries_[at.value()] = std::move(entry);
  by_key_.emplace(key, at.value());
  if (entries_[at.value()].next <= now) look_after(now, entries_[at.value()], qpn, own);
  return id;
} catch (const Error& error) {
  return error.code() == Errc::no_resources ? Errc::no_resources : Errc::unreachable;
} catch (const std::exception&) {
  return Errc::no_resources;  // out of memory
}

/// Asks over the ways to a device, or judges by the answers.
void DatagramRoutes::look_after(Time now, Entry& entry, Qpn qpn, Qpn own) noexcept try {
  if (std::exchange(entry.asking, !entry.asking)) {
    entry.next = now + kDatagramQuestions;
    return use_best(entry);
  }
  entry.next = now + kDatagramAnswers;
  entry.question = connector_.new_question();
  for (std::size_t i = 0; i < std::min(entry.ways.size(), kMostWays); ++i) {
    entry.ways[i].answered = false;
    connector_.ask(entry.ways[i].contact, entry.question, qpn, own);
  }
  connector_.work(now);
} catch (const std::exception&) {  // out of memory: the way stays as it is
}

void DatagramRoutes::use_best(Entry& entry) {
  const auto best = std::find_if(entry.ways.begin(), entry.ways.end(),
                                 [](const Way& way) { return way.answered; });
  if (best == entry.ways.end()) return;
  const auto index = static_cast<std::size_t>(best - entry.ways.begin());
  if (index == entry.used) return;
  entry.used = index;
  const auto place = static_cast<std::size_t>(&entry - entries_.data());
  planes_.ports[best->contact.plane]->add_peer(peer_of(place), best->paths.route);
  engine::prefer_plane(engine_, entry.id, best->contact.plane);
}

/// The paths of the likeliest address in each plane, without those that are denied.
std::vector<path::PathSpec> DatagramRoutes::allowed_paths(const std::vector<Way>& ways) const {
  std::vector<path::PathSpec> allowed;
  PlaneMask seen = 0;
  for (const Way& way : ways) {
    if ((seen & plane_bit(way.contact.plane)) != 0) continue;
    seen |= plane_bit(way.contact.plane);
    for (const path::PathSpec& path : way.paths.specs)
      if (!steering_.denies(way.paths.route, path)) allowed.push_back(path);
  }
  return allowed;
}

void DatagramRoutes::deny_paths() noexcept {
  for (const Entry& entry : entries_) try {
      if (!entry.live) continue;
      engine::set_destination_paths(engine_, entry.id, allowed_paths(entry.ways));
      engine::prefer_plane(engine_, entry.id, entry.ways[entry.used].contact.plane);
    } catch (const std::exception&) {  // out of memory: the paths stay as they are
    }
}

void DatagramRoutes::on_answer(std::uint64_t question, const Contact& from) noexcept {
  for (Entry& entry : entries_) {
    if (!entry.live || !entry.asking || entry.question != question) continue;
    for (Way& way : entry.ways) way.answered |= way.contact == from;
  }
}

/// A place in entries_ that is free, or behind the last one.
Result<std::size_t> DatagramRoutes::place() {
  if (entries_.size() < kMost) return entries_.size();
  for (std::size_t n = 0; n < entries_.size(); ++n) {
    const std::size_t at = std::exchange(oldest_, (oldest_ + 1) % entries_.size());
    if (entries_[at].live && engine::remove_destination(engine_, entries_[at].id) != Errc::ok)
      continue;
    forget(at);
    return at;
  }
  return Errc::no_resources;
}

void DatagramRoutes::forget(std::size_t place) noexcept {
  Entry& entry = entries_[place];
  if (!entry.live) return;
  for (const Way& way : entry.ways) planes_.ports[way.contact.plane]->remove_peer(peer_of(place));
  by_key_.erase(entry.key);
  entry = {};
}

}  // namespace mrc::inline v0_1::detail
