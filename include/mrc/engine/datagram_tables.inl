// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/resolve/datagrams.hpp"

namespace mrc::inline v0_1::engine {

Result<Qpn> DatagramTables::add_qp(const DatagramInit& init) {
  const Result<Qpn> qpn = numbers_.next_number();
  if (!qpn) return qpn;
  const std::uint32_t place = numbers_.place_of(qpn.value());
  if (place >= qps_.size()) qps_.resize(place + std::size_t{1});
  qps_[place] = std::make_unique<DatagramState>(qpn.value(), init);
  numbers_.take_number();
  ++count_;
  return qpn;
}

void DatagramTables::remove_qp(Qpn qpn) noexcept {
  --count_;
  qps_[numbers_.place_of(qpn)].reset();
  numbers_.return_number(qpn);
}

DestinationId DatagramTables::add_destination(const DestinationSpec& spec) {
  auto added = std::make_unique<Destination>();
  added->spec.peer = spec.peer;
  auto place = std::find(destinations_.begin(), destinations_.end(), nullptr);
  if (place == destinations_.end()) place = destinations_.insert(place, nullptr);
  *place = std::move(added);
  const DestinationId id{static_cast<std::uint32_t>(place - destinations_.begin())};
  set_paths(id, spec.paths);
  return id;
}

void DatagramTables::set_paths(DestinationId id, std::span<const path::PathSpec> paths) {
  Destination* to = destination(id);
  if (to == nullptr) return;
  std::vector<path::PathSpec> sorted;
  std::vector<Destination::Way> ways;
  PlaneMask seen = 0;
  for (const path::PathSpec& first : paths) {
    if ((seen & plane_bit(first.plane)) != 0) continue;
    seen |= plane_bit(first.plane);
    Destination::Way way{first.plane, static_cast<std::uint32_t>(sorted.size()), 0};
    for (const path::PathSpec& path : paths) {
      if (path.plane != first.plane) continue;
      sorted.push_back(path);
      ++way.count;
    }
    ways.push_back(way);
  }
  to->spec.paths = std::move(sorted);
  to->ways = std::move(ways);
}

void DatagramTables::prefer_plane(DestinationId id, Plane plane) noexcept {
  Destination* to = destination(id);
  if (to == nullptr) return;
  const auto preferred =
      std::find_if(to->ways.begin(), to->ways.end(),
                   [plane](const Destination::Way& way) { return way.plane == plane; });
  if (preferred != to->ways.end()) std::rotate(to->ways.begin(), preferred, preferred + 1);
}

Errc DatagramTables::remove_destination(DestinationId id) noexcept {
  const Destination* old = destination(id);
  if (old == nullptr) return Errc::not_found;
  if (old->uses > 0) return Errc::in_use;
  destinations_[static_cast<std::uint32_t>(id)].reset();
  return Errc::ok;
}

}  // namespace mrc::inline v0_1::engine
