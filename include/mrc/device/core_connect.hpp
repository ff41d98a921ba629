// SPDX-License-Identifier: Apache-2.0
// DeviceCore: queue pairs and the peers that they are connected to.
#pragma once

#include <string>

#include "mrc/device/core.hpp"
#include "mrc/device/fabric_settings.hpp"

namespace mrc::inline v0_1::detail {

inline ConnectionInfo DeviceCore::local_info(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_->find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  const QpAttributes& a = qp->init.attributes;
  ConnectionInfo info;
  info.device_guid = guid_;
  info.qpn = qpn;
  info.start_psn = qp->start_psn;
  info.mtu = a.mtu;
  info.mpr_dest = a.mpr_dest;
  info.max_wimm_dest = a.max_wimm_dest;
  info.dynamic_mpr = a.dynamic_mpr;
  info.trim_nack = a.trim_nack;
  info.icrc = config_.icrc;
  info.slot = slot_;
  info.receive_window = UINT64_MAX;
  for (const auto& port : ports_) {
    info.planes.push_back(port->address());
    info.receive_window = std::min(info.receive_window, port->capabilities().receive_buffer);
  }
  info.receive_window =
      std::max<std::uint64_t>(info.receive_window / config_.receive_shares, 2 * a.mtu);
  return info;
}

/// The peer that a ConnectionInfo speaks of: known already, or entered into engine and ports.
inline PeerId DeviceCore::find_or_add_peer(const ConnectionInfo& info) {
  if (const auto it = peers_.find(info.device_guid); it != peers_.end()) return it->second.id;
  engine::PeerSpec spec;
  spec.slot = info.slot;
  spec.plane_window = info.receive_window;
  std::string name;
  std::size_t active = 0;
  bool all_denied = false;
  const std::size_t common = std::min(ports_.size(), info.planes.size());
  std::vector<std::vector<port::PacketRoute>> routes(common);
  for (std::size_t i = 0; i < common; ++i) {
    if (port::is_v4(info.planes[i].ip) != port::is_v4(ports_[i]->address().ip)) continue;
    const auto plane = static_cast<Plane>(i);
    PlanePaths paths = paths_to(plane, info.planes[i]);
    if (paths.specs.empty()) {
      all_denied = true;
      continue;
    }
    spec.planes |= plane_bit(plane);
    spec.paths.insert(spec.paths.end(), paths.specs.begin(), paths.specs.end());
    active += paths.active;
    routes[i] = std::move(paths.routes);
    spec.source_tags[i] = port::source_tag(info.planes[i].ip);
    name += (name.empty() ? "" : ", ") + port::format_address(info.planes[i]);
  }
  spec.shared_routes = fabric_.has_value();
  if (config_.active_paths == 0) spec.active_paths = static_cast<std::uint16_t>(active);
  if (spec.planes == 0 && all_denied)
    throw Error(Errc::unreachable,
                "peer " + to_string(info) + ": all paths to it are denied in " + fabric_->file);
  if (spec.planes == 0)
    throw Error(Errc::unreachable, "peer " + to_string(info) +
                                       ": no plane of it has the IP version of the local plane of "
                                       "the same number; give both sides matching planes");
  const Result<PeerId> peer = engine_->add_peer(spec);
  if (!peer) throw Error(peer.error(), "peer " + name + ": see option max_peers");
  try {
    for (std::size_t i = 0; i < common; ++i)
      if ((spec.planes >> i & 1) != 0)
        enter_peer(peer.value(), static_cast<Plane>(i), info.planes[i], std::move(routes[i]));
  } catch (...) {
    for (auto& port : ports_) port->remove_peer(peer.value());
    (void)engine_->remove_peer(peer.value());
    throw;
  }
  peers_[info.device_guid] = {peer.value(), name};
  return peer.value();
}

/// The paths that a plane has to a peer.
inline PlanePaths DeviceCore::paths_to(Plane plane, const port::PeerAddress& peer) const {
  if (fabric_) return make_plane_paths(fabric_paths(plane, peer), fabric_->planes);
  PlanePaths out;
  for (const port::PortPath& path : ports_[plane]->paths())
    out.specs.push_back({path.ev, plane, path.port_path});
  out.active = out.specs.size();
  return out;
}

/// Enters a peer into the plane's port, and says what the port has to say about it.
inline void DeviceCore::enter_peer(PeerId id, Plane plane, const port::PeerAddress& peer,
                                   std::vector<port::PacketRoute> routes) {
  DevicePort& port = *ports_[plane];
  const std::size_t before = port.notes().size();
  if (fabric_)
    (void)port.add_peer(id, peer, std::move(routes));
  else
    (void)port.add_peer(id, peer);
  for (const std::string& note : port.notes().subspan(before))
    log(LogLevel::warn, "plane " + std::to_string(plane) + ": " + note);
}

inline void DeviceCore::connect(Qpn qpn, const ConnectionInfo& info) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_->find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  const std::string what = "connecting queue pair to " + to_string(info);
  if (qp->state != QpState::reset)
    throw Error(Errc::invalid_state, what + ": it is in " + to_string(qp->state) +
                                         "; only one in RESET can be connected");
  if (info.icrc != config_.icrc)
    throw Error(Errc::incompatible, what + ": iCRC is on at one side only; set option icrc alike");
  if (slot_of(info.qpn) != info.slot)
    throw Error(Errc::bad_message, what + ": its QPN does not belong to its slot");
  RemoteQp remote;
  remote.peer = find_or_add_peer(info);
  remote.qpn = info.qpn;
  remote.start_psn = info.start_psn;
  remote.mtu = std::min(info.mtu, qp->init.attributes.mtu);
  remote.mpr_dest = info.mpr_dest;
  remote.max_wimm_dest = info.max_wimm_dest;
  remote.dynamic_mpr = info.dynamic_mpr;
  remote.trim_nack = info.trim_nack;
  Errc e = engine_->to_init(qpn);
  if (e == Errc::ok) e = engine_->to_rtr(qpn, remote);
  if (e == Errc::ok) e = engine_->to_rts(qpn, monotonic_now());
  if (e != Errc::ok) {
    (void)engine_->to_reset(qpn);
    forget_unused_peer(remote.peer);
    throw Error(e, what);
  }
  wake_for(next_deadline());
}

/// A peer without queue pairs is forgotten: it may come back with other addresses.
inline void DeviceCore::forget_unused_peer(PeerId id) noexcept {
  if (engine_->remove_peer(id) != Errc::ok) return;
  for (auto& port : ports_) port->remove_peer(id);
  std::erase_if(peers_, [id](const auto& known) { return known.second.id == id; });
}

inline Errc DeviceCore::close_qp(Qpn qpn) noexcept {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_->find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  (void)advance(monotonic_now());  // acknowledgements that wait still go out
  const bool connected = qp->peer != nullptr;
  const PeerId peer = qp->remote.peer;
  const Errc e = engine_->destroy_qp(qpn);
  if (connected) forget_unused_peer(peer);
  wake_for(next_deadline());
  return e;
}

inline Errc DeviceCore::reset_qp(Qpn qpn) noexcept {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_->find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  if (work_left_) (void)send(monotonic_now());  // answers that the peer waits for
  const bool connected = qp->peer != nullptr;
  const PeerId peer = qp->remote.peer;
  const Errc e = engine_->to_reset(qpn);
  if (connected) forget_unused_peer(peer);
  wake_for(next_deadline());
  return e;
}

/// Why a queue pair is in ERR, with what an operator wants to know next.
inline std::string DeviceCore::error_text(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_->find_qp(qpn);
  if (qp == nullptr || qp->state != QpState::err) return {};
  std::string text = to_string(qp->cause);
  if (qp->peer == nullptr) return text;
  for (const auto& [guid, known] : peers_)
    if (known.id == qp->peer->id) text += "; peer " + known.name;
  const QpStats& s = qp->stats;
  if (qp->cause == QpErrorCause::retry_exhausted) {
    unsigned bad = 0;
    const path::PathSet& paths = qp->peer->paths;
    for (path::PathIndex i = 0; i < paths.size(); ++i)
      bad += paths.health(i) == path::Health::assumed_bad;
    text += "; tried " + std::to_string(qp->tx.retries.used()) + " timeouts, " +
            std::to_string(s.retransmits) + " retransmissions and " + std::to_string(s.probes) +
            " probes on " + std::to_string(paths.size()) + " paths, " + std::to_string(bad) +
            " of them assumed bad";
    if (paths.usable_planes() == 0) text += "; no plane is up at both sides";
  }
  return text;
}

}  // namespace mrc::inline v0_1::detail
