// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/device/peers.hpp"
#include "mrc/port/address.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP RemoteQp remote_of(const ConnectionInfo& info, PeerId peer) noexcept {
  RemoteQp remote;
  remote.peer = peer;
  remote.qpn = info.qpn;
  remote.start_psn = info.start_psn;
  remote.mtu = info.mtu;
  remote.mpr_dest = info.mpr_dest;
  remote.max_wimm_dest = info.max_wimm_dest;
  remote.dynamic_mpr = info.dynamic_mpr;
  remote.trim_nack = info.trim_nack;
  remote.solicited = info.solicited;
  remote.tag = info.tag;
  return remote;
}

MRC_SETUP std::optional<PeerId> Peers::find(const ConnectionInfo& info) const noexcept {
  for (const Known& known : known_)
    if (known.guid == info.device_guid && known.slot == info.slot && known.planes == info.planes &&
        known.port_data == info.port_data && known.receive_window == info.receive_window)
      return known.id;
  return std::nullopt;
}

MRC_SETUP PeerId Peers::add(const ConnectionInfo& info, const Candidate& candidate) {
  if (const auto known = find(info)) return *known;
  const Result<PeerId> peer = engine_.add_peer(candidate.spec);
  if (!peer) throw Error(peer.error(), "peer " + candidate.name + ": see option max_peers");
  try {
    for (std::size_t i = 0; i < candidate.routes.size(); ++i)
      if ((candidate.spec.planes >> i & 1) != 0)
        add_to_port(peer.value(), static_cast<Plane>(i), candidate.routes[i]);
    known_.push_back({info.device_guid, info.slot, info.planes, info.port_data, info.receive_window,
                      peer.value(), candidate.name});
  } catch (...) {
    for (auto& port : planes_.ports) port->remove_peer(peer.value());
    (void)engine_.remove_peer(peer.value());
    throw;
  }
  return peer.value();
}

MRC_SETUP void Peers::await_routes(const Candidate& candidate, Duration patience) const {
  const Time end = monotonic_now() + patience;
  for (std::size_t i = 0; i < candidate.routes.size(); ++i) {
    if ((candidate.spec.planes >> i & 1) == 0) continue;
    const Duration left = std::max(Duration{}, end - monotonic_now());
    const std::string lost = planes_.ports[i]->await_route(candidate.routes[i], left);
    if (!lost.empty()) log_.warn("plane " + std::to_string(i) + ": " + lost);
  }
}

MRC_SETUP Peers::Candidate Peers::make_candidate(const ConnectionInfo& info) const {
  Candidate c;
  c.spec.slot = info.slot;
  c.spec.plane_window = info.receive_window;
  c.spec.shared_routes = planes_.paths->shared_routes();
  c.routes.resize(std::min<std::size_t>(planes_.count(), info.planes.size()));
  std::size_t active = 0;
  bool none_usable = false;  // a plane that both have, but all its paths are denied
  for (std::size_t i = 0; i < c.routes.size(); ++i) {
    if (info.planes[i].udp_port == 0) continue;  // not known
    if (port::is_v4(info.planes[i].ip) != port::is_v4(planes_.ports[i]->address().ip)) continue;
    const auto plane = static_cast<Plane>(i);
    const Bytes data = i < info.port_data.size() ? Bytes(info.port_data[i]) : Bytes();
    PlanePaths paths = planes_.paths->paths_to(plane, info.planes[i], data);
    if (paths.specs.empty()) {
      none_usable = true;
      continue;
    }
    c.spec.planes |= plane_bit(plane);
    c.spec.paths.insert(c.spec.paths.end(), paths.specs.begin(), paths.specs.end());
    active += paths.active;
    c.routes[i] = std::move(paths.route);
    c.spec.source_tags[i] = planes_.paths->source_tag(plane, info.planes[i].ip);
    c.name += (c.name.empty() ? "" : ", ") + port::format_address(info.planes[i]);
  }
  if (config_.active_paths == 0) c.spec.active_paths = static_cast<std::uint16_t>(active);
  if (c.spec.planes == 0)
    throw Error(Errc::unreachable,
                "peer " + to_string(info) + ": " +
                    (none_usable ? planes_.paths->why_none()
                                 : "no plane of it has the IP version of the local plane of the "
                                   "same number; give both sides matching planes"));
  return c;
}

/// Logs what the port notes about the peer.
MRC_SETUP void Peers::add_to_port(PeerId peer, Plane plane, const PeerRoute& route) {
  DevicePort& port = *planes_.ports[plane];
  const std::size_t before = port.notes().size();
  port.add_peer(peer, route);
  for (const std::string& note : port.notes().subspan(before))
    log_.warn("plane " + std::to_string(plane) + ": " + note);
}

MRC_SETUP void Peers::forget_unused(PeerId id) noexcept {
  if (engine_.remove_peer(id) != Errc::ok) return;
  for (auto& port : planes_.ports) port->remove_peer(id);
  std::erase_if(known_, [id](const Known& known) { return known.id == id; });
}

MRC_SETUP void Peers::log_tags(const engine::QueuePairState& qp,
                               const ConnectionInfo& peer) noexcept {
  if (!tags_.open() || !qp.expected) return;
  std::vector<port::PeerAddress> own;
  for (const auto& port : planes_.ports) own.push_back(port->address());
  tags_.add(own, qp.qpn, qp.expected.bits());
  tags_.add(peer.planes, peer.qpn, peer.tag);
}

MRC_SETUP std::string Peers::error_text(const engine::QueuePairState& qp) const {
  if (qp.state != QpState::err) return {};
  std::string text = to_string(qp.cause);
  if (qp.peer == nullptr) return text;
  for (const Known& known : known_)
    if (known.id == qp.peer->id) text += "; peer " + known.name;
  if (qp.cause == QpErrorCause::retry_exhausted) {
    unsigned bad = 0;
    const path::PathSet& paths = qp.peer->paths;
    for (path::PathIndex i = 0; i < paths.size(); ++i)
      bad += paths.health(i) == path::Health::assumed_bad;
    text += "; tried " + std::to_string(qp.tx.retries.used()) + " timeouts, " +
            std::to_string(qp.stats.retransmits) + " retransmissions and " +
            std::to_string(qp.stats.probes) + " probes on " + std::to_string(paths.size()) +
            " paths, " + std::to_string(bad) + " of them assumed bad";
    if (paths.usable_planes() == 0) text += "; no plane is up at both sides";
  }
  return text;
}

}  // namespace mrc::inline v0_1::detail
