// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "mrc/core/system.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/net/interface.hpp"

namespace mrc::inline v0_1::detail {

KeyLog::KeyLog(const std::string& path) {
  if (path.empty()) return;
  file_ = open_own_file(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
  struct stat status {};
  if (!file_.open() || ::fstat(file_.fd(), &status) != 0)
    throw_errno("option keylog: cannot append to " + path + kOwnFileRemedy);
  if (!S_ISREG(status.st_mode) || (status.st_mode & 077) != 0)
    throw Error(Errc::invalid_argument,
                "option keylog: " + path +
                    " must be a file that only this user can read and write: remove it, or `chmod "
                    "600` it");
}

void KeyLog::add(std::span<const port::PeerAddress> planes, Qpn qpn, std::uint64_t tag) noexcept
    try {
  if (!open() || tag == 0) return;
  std::vector<std::string> addresses;  // in order; planes may share one
  for (const port::PeerAddress& plane : planes) {
    std::string address = port::format_ip(plane.ip);
    const auto at = std::lower_bound(addresses.begin(), addresses.end(), address);
    if (at == addresses.end() || *at != address) addresses.insert(at, std::move(address));
  }
  std::string lines;
  for (const std::string& address : addresses) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, " 0x%06x 0x%016llx\n", value(qpn),
                  static_cast<unsigned long long>(tag));
    lines += "MRC_TAG " + address + numbers;
  }
  (void)uncancelled::write(file_.fd(), lines.data(), lines.size());  // at once: others append, too
} catch (const std::exception&) {  // out of memory: a diagnosis is not worth a connection
}

RemoteQp remote_of(const ConnectionInfo& info, PeerId peer) noexcept {
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
  remote.parts = info.parts;
  remote.rc = info.rc;
  remote.max_rd_atomic_dest = info.max_rd_atomic_dest;
  remote.tag = info.tag;
  return remote;
}

std::string unheard_text(const Config& config) {
  return "no UDP packet of it has arrived: are UDP ports " + std::to_string(config.udp_port) +
         " and up open in both directions?";
}

bool Peers::Known::is(const ConnectionInfo& info) const noexcept {
  return guid == info.device_guid && slot == info.slot && planes == info.planes &&
         port_data == info.port_data && receive_window == info.receive_window &&
         foreign == info.foreign && network_namespace == info.network_namespace;
}

bool Peers::Known::denies(std::size_t path) const noexcept {
  return evs && path < evs->entries.size() &&
         (evs->entries[path].denied ||
          std::find(not_sendable.begin(), not_sendable.end(), path) != not_sendable.end());
}

const Peers::Known* Peers::find(PeerId id) const noexcept {
  const auto at = std::find_if(known_.begin(), known_.end(),
                               [id](const Known& known) { return known.id == id; });
  return at == known_.end() ? nullptr : &*at;
}

std::optional<PeerId> Peers::find(const ConnectionInfo& info,
                                  const QpProfiles& profiles) const noexcept {
  for (const Known& known : known_)
    if (known.is(info) && known.profiles == profiles) return known.id;
  return std::nullopt;
}

PeerId Peers::add(const ConnectionInfo& info, const Candidate& candidate) {
  if (const auto known = find(info, candidate.profiles.ids)) return *known;
  engine::PeerSpec spec = candidate.spec;
  for (const Known& known : known_)
    if (known.is(info)) spec.sibling = known.id;
  const Result<PeerId> peer = lane_.engine.add_peer(spec);
  if (!peer) throw Error(peer.error(), "peer " + candidate.name + ": see option max_peers");
  try {
    for (std::size_t i = 0; i < candidate.routes.size(); ++i)
      if ((candidate.spec.planes >> i & 1) != 0)
        add_to_port(peer.value(), static_cast<Plane>(i), candidate.routes[i]);
    known_.push_back({info.device_guid,
                      info.slot,
                      info.planes,
                      info.port_data,
                      info.receive_window,
                      info.network_namespace,
                      info.foreign,
                      takes_heads(info),
                      peer.value(),
                      candidate.name,
                      candidate.profiles.ids,
                      candidate.profiles.evs,
                      {}});
    deny_paths(monotonic_now(), known_.back());
  } catch (...) {
    for (auto& port : lane_.planes.ports) port->remove_peer(peer.value());
    (void)lane_.engine.remove_peer(peer.value());
    std::erase_if(known_, [&](const Known& known) { return known.id == peer.value(); });
    throw;
  }
  lane_.log.info("connected to peer " + candidate.name +
                 (info.foreign                ? ", which is not OpenMRC"
                  : candidate.spec.head_check ? ", on this host: the iCRC leaves the payload out"
                                              : ""));
  if (candidate.slower && !std::exchange(noted_slower_, true))  // one line for all of them
    lane_.log.warn(
        "peer " + candidate.name +
        " is not OpenMRC: packets to such peers leave one by one over IPv4, without the "
        "kernel's segmentation (option gso), which would number them so that the iCRC is wrong "
        "for a NIC; IPv6 has no such limit");
  return peer.value();
}

std::uint32_t Peers::agreed_mtu_with(const ConnectionInfo& info, std::uint32_t own) const noexcept {
  const bool multiples = info.mtu_multiples && lane_.config.peer != PeerKind::mrc;
  if (info.foreign && lane_.config.mtu == 0 && is_mtu(own)) own = mrc_mtu(own);
  return agreed_mtu(own, info.mtu == 0 ? own : info.mtu, multiples);
}

void Peers::await_routes(const Candidate& candidate, Duration patience) const {
  const Time end = monotonic_now() + patience;
  for (std::size_t i = 0; i < candidate.routes.size(); ++i) {
    if ((candidate.spec.planes >> i & 1) == 0) continue;
    const Duration left = std::max(Duration{}, end - monotonic_now());
    const std::string lost = lane_.planes.ports[i]->await_route(candidate.routes[i], left);
    if (!lost.empty()) lane_.log.warn("plane " + std::to_string(i) + ": " + lost);
  }
}

Peers::Candidate Peers::make_candidate(const ConnectionInfo& info,
                                       const PeerProfiles& profiles) const {
  lane_.filter.check(info);
  Candidate c;
  c.profiles = profiles;
  c.spec.cc = profiles.cc;
  c.spec.slot = info.slot;
  c.spec.plane_window = info.receive_window;
  c.spec.shared_routes = lane_.planes.kind->shared_routes();
  c.routes.resize(std::min<std::size_t>(lane_.planes.count(), info.planes.size()));
  std::size_t active = 0;
  bool none_usable = false;  // a plane that both have, but all its paths are denied
  for (std::size_t i = 0; i < c.routes.size(); ++i) {
    if (info.planes[i].udp_port == 0) continue;  // not known
    if (port::is_v4(info.planes[i].ip) != port::is_v4(lane_.planes.ports[i]->address().ip))
      continue;
    const auto plane = static_cast<Plane>(i);
    check_loopback(info, plane);
    const Bytes data = i < info.port_data.size() ? Bytes(info.port_data[i]) : Bytes();
    PlanePaths paths = lane_.planes.kind->paths_to(lane_.planes, plane, info.planes[i], data);
    if (paths.specs.empty()) {
      none_usable = true;
      continue;
    }
    c.spec.planes |= plane_bit(plane);
    c.spec.paths.insert(c.spec.paths.end(), paths.specs.begin(), paths.specs.end());
    active += paths.active;
    c.routes[i] = std::move(paths.route);
    c.spec.source_tags[i] = lane_.planes.kind->source_tag(plane, info.planes[i].ip);
    c.name += (c.name.empty() ? "" : ", ") +
              port::format_local({info.planes[i].ip, lane_.planes.ports[i]->zone()},
                                 info.planes[i].udp_port);
  }
  if (lane_.config.active_paths == 0) c.spec.active_paths = static_cast<std::uint16_t>(active);
  if (profiles.evs && c.spec.planes != 0)
    c.spec.active_paths = static_cast<std::uint16_t>(add_profile(c, info));
  c.spec.head_check = takes_heads(info);
  for (std::size_t i = 0; i < c.routes.size(); ++i) {
    if ((c.spec.planes >> i & 1) == 0) continue;
    const auto plane = static_cast<Plane>(i);
    if (info.foreign)
      c.slower |= lane_.planes.kind->keep_real_header(lane_.planes, plane, c.routes[i]);
    if (takes_heads(info))
      c.spec.head_check &=
          lane_.planes.kind->take_heads(lane_.planes, plane, info.planes[i], c.routes[i]);
  }
  if (c.spec.planes == 0)
    throw Error(Errc::unreachable,
                "peer " + to_string(info) + ": " +
                    (none_usable ? lane_.planes.kind->why_none()
                                 : "no plane of it has the IP version of the local plane of the "
                                   "same number; give both sides matching planes"));
  return c;
}

/// Loopback addresses reach only processes of the same network namespace: a side that was started
/// without `planes` is on one. Throws mrc::Error if the peer is elsewhere.
void Peers::check_loopback(const ConnectionInfo& info, Plane plane) const {
  const port::IpAddress& here = lane_.planes.ports[plane]->address().ip;
  const port::IpAddress& there = info.planes[plane].ip;
  const bool own = port::is_loopback(here), its = port::is_loopback(there);
  if (!own && !its) return;
  const bool told = info.network_namespace != 0 && lane_.planes.network_namespace != 0;
  // If only this address is a loopback one, the route tells too. For the peer's it always leads
  // back here.
  if (told ? info.network_namespace == lane_.planes.network_namespace
           : its || port::stays_on_loopback(here, there))
    return;
  throw Error(Errc::unreachable,
              "peer " + port::format_address(info.planes[plane]) + ": plane " +
                  std::to_string(plane) +
                  (own && its ? " of both sides"
                   : own      ? " here"
                              : " there") +
                  " is on a loopback address, which only processes on the same host reach; give "
                  "that side addresses of its network (option planes: --planes, MRC_PLANES)");
}

bool Peers::takes_heads(const ConnectionInfo& info) const noexcept {
  return info.network_namespace != 0 && info.network_namespace == lane_.planes.network_namespace &&
         !info.foreign && info.icrc && info.tag != 0;
}

/// Puts the paths of the EV profile in place of those of the planes; in AUTO mode only its limits.
/// Returns the size of the active set.
std::size_t Peers::add_profile(Candidate& c, const ConnectionInfo& info) const {
  const EvTable& evs = *c.profiles.evs;
  c.spec.event_mask = evs.event_mask;
  std::size_t active = c.spec.active_paths != 0 ? c.spec.active_paths : lane_.config.active_paths;
  if (evs.mode == EvProfileMode::automatic) {
    active = std::min<std::size_t>({active, evs.ev_count, c.spec.paths.size()});
  } else {
    c.spec.shared_routes = false;
    c.spec.paths.clear();
    PlaneMask used = 0;
    for (const EvTable::Entry& entry : evs.entries) {
      const auto index = static_cast<path::PathIndex>(c.spec.paths.size());
      c.spec.paths.push_back(
          lane_.planes.kind->path_of(lane_.planes, evs.format, entry.expanded, index));
      if (entry.denied) c.spec.denied.push_back(index);
      used |= plane_bit(entry.expanded.plane);
    }
    if ((used & c.spec.planes) == 0)
      throw Error(Errc::unreachable, "peer " + to_string(info) + ": EV profile " +
                                         std::to_string(evs.profile) +
                                         " has no EV in a plane that the peer has");
    for (std::size_t i = 0; i < c.routes.size(); ++i) {
      if ((c.spec.planes >> i & 1) == 0) continue;
      const Bytes data = i < info.port_data.size() ? Bytes(info.port_data[i]) : Bytes();
      c.routes[i] = lane_.planes.kind->route_with(lane_.planes, static_cast<Plane>(i),
                                                  info.planes[i], data, evs);
    }
    const std::size_t most =
        lane_.config.active_paths != 0 ? lane_.config.active_paths : EvTable::kActive;
    active = std::min(evs.entries.size(), std::max<std::size_t>(most, evs.min_active));
  }
  c.spec.min_active_paths =
      static_cast<std::uint16_t>(std::min<std::size_t>(active, evs.min_active));
  return active;
}

PeerRoute Peers::route_to(const Known& known, Plane plane) const {
  const port::PeerAddress& address = known.planes[plane];
  const Bytes data = plane < known.port_data.size() ? Bytes(known.port_data[plane]) : Bytes();
  return known.evs && known.evs->mode != EvProfileMode::automatic
             ? lane_.planes.kind->route_with(lane_.planes, plane, address, data, *known.evs)
             : lane_.planes.kind->paths_to(lane_.planes, plane, address, data).route;
}

void Peers::deny_paths(Time now) noexcept {
  for (const Known& known : known_) try {
      deny_paths(now, known);
    } catch (const std::exception& error) {  // out of memory: the paths stay as they are
      lane_.log.warn("peer " + known.name + ": paths are to be denied: " + error.what());
    }
}

void Peers::deny_paths(Time now, const Known& known) {
  const engine::Peer& peer = *lane_.engine.find_peer(known.id);
  std::vector<PeerRoute> routes(lane_.planes.count());
  for (std::size_t i = 0; i < routes.size(); ++i)
    if ((peer.planes >> i & 1) != 0) routes[i] = route_to(known, static_cast<Plane>(i));
  std::vector<path::PathIndex> changed;
  for (std::size_t n = 0; n < peer.paths.size(); ++n) {
    const auto i = static_cast<path::PathIndex>(n);
    const path::PathSpec path = peer.paths[i];
    const bool denied = known.denies(n) || ((peer.planes >> path.plane & 1) != 0 &&
                                            lane_.steering.denies(routes[path.plane], path));
    if (denied != (peer.paths.health(i) == path::Health::denied)) changed.push_back(i);
  }
  if (changed.empty()) return;
  (void)lane_.engine.change_paths(now, known.id, [&](path::PathSet& paths) {
    for (const path::PathIndex i : changed)
      (void)paths.set_health(
          i, paths.health(i) == path::Health::denied ? path::Health::good : path::Health::denied);
  });
}

/// "plane 2", or "planes 0, 2".
std::string Peers::planes_text(PlaneMask planes) {
  std::string text;
  for (PlaneMask m = planes; m != 0; m &= m - 1)
    text += (text.empty() ? "" : ", ") + std::to_string(std::countr_zero(m));
  return (std::has_single_bit(planes) ? "plane " : "planes ") + text;
}

void Peers::report_narrow(const engine::Peer& peer, PlaneMask changed) const {
  const std::string packets = " to " + find(peer.id)->name + ": packets of " +
                              std::to_string(peer.largest_payload + kPacketOverhead);
  if (const PlaneMask narrow = changed & peer.narrow; narrow != 0) {
    const bool others = (peer.paths.usable_planes() & ~peer.narrow) != 0;
    lane_.log.warn(planes_text(narrow) + packets + " bytes do not pass, small ones do: " +
                   (others                ? "other planes carry the data"
                    : peer.sizes.probed() ? "data goes in smaller packets"
                                          : "data can't pass") +
                   " until that works again; make the MTU of interfaces and switches the same");
  }
  if (const PlaneMask wide = changed & ~peer.narrow; wide != 0)
    lane_.log.info(planes_text(wide) + packets + " bytes pass again");
}

void Peers::report_narrow_path(const engine::Peer& peer, path::PathIndex path) const {
  const path::PathSpec& spec = peer.paths[path];
  const Known& known = *find(peer.id);
  const std::string over =
      lane_.planes.kind->crossed_switch(spec.plane, known.planes[spec.plane].ip, spec.ev);
  char ev[16];
  std::snprintf(ev, sizeof ev, "0x%x", static_cast<unsigned>(value(spec.ev)));
  lane_.log.warn("plane " + std::to_string(spec.plane) + ", path " + ev +
                 (over.empty() ? "" : " over " + over) + " to " + known.name + ": packets of " +
                 std::to_string(peer.largest_payload + kPacketOverhead) +
                 " bytes do not pass, small ones do: other paths carry the data; make the MTU of "
                 "switches and links on it the same");
}

void Peers::report_singly(const engine::Peer& peer, PlaneMask planes) const {
  lane_.log.warn(
      planes_text(planes) + " to " + find(peer.id)->name +
      ": bursts that the kernel or the NIC cuts into packets (GSO) vanish, single packets "
      "arrive: all leave one by one, which costs processor time, and bursts are tried again "
      "every 5 minutes. Linux 7.0 to 7.1.4 does this, here or in the hypervisor: update it; "
      "if it is the NIC, `ethtool -K DEVICE tx-udp-segmentation off`; MRC_GSO=off gives "
      "bursts up");
}

void Peers::add_to_port(PeerId peer, Plane plane, const PeerRoute& route) {
  Port& port = *lane_.planes.ports[plane];
  const std::size_t before = port.notes().size();
  port.add_peer(peer, route);
  for (const std::string& note : port.notes().subspan(before))
    lane_.log.warn("plane " + std::to_string(plane) + ": " + note);
}

void Peers::forget_unused(PeerId id) noexcept {
  if (lane_.engine.remove_peer(id) != Errc::ok) return;
  for (auto& port : lane_.planes.ports) port->remove_peer(id);
  std::erase_if(known_, [id](const Known& known) { return known.id == id; });
}

/// Paths that are held back, and in good health.
[[nodiscard]] std::uint32_t backups_of(const path::PathSet& paths) noexcept {
  std::uint32_t n = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto path = static_cast<path::PathIndex>(i);
    n += !paths.active(path) && path::usable(paths.health(path));
  }
  return n;
}

void Peers::add_to(std::vector<PeerReport>& reports, std::size_t first, std::size_t most) const {
  for (std::size_t i = first; i < known_.size() && i - first < most; ++i)
    if (const engine::Peer* peer = lane_.engine.find_peer(known_[i].id))
      reports.push_back({known_[i].name, lane_.index, value(known_[i].id), peer->queue_pairs,
                         static_cast<std::uint32_t>(peer->paths.size()), peer->paths.active_count(),
                         backups_of(peer->paths), known_[i].foreign, peer->head_check});
}

void Peers::log_tags(const engine::QueuePairState& qp, const ConnectionInfo& peer) noexcept {
  if (!tags_.open() || !qp.expected) return;
  std::vector<port::PeerAddress> own;
  for (const auto& port : lane_.planes.ports) own.push_back(port->address());
  tags_.add(own, qp.qpn, qp.expected.bits());
  tags_.add(peer.planes, peer.qpn, peer.tag);
}

std::string Peers::error_text(const engine::QueuePairState& qp) const {
  if (qp.state != QpState::err) return {};
  std::string text = to_string(qp.cause);
  if (qp.peer == nullptr) return text;
  text += "; peer " + find(qp.peer->id)->name;
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
    if (!qp.heard) text += "; " + unheard_text(lane_.config);
    if (qp.peer->narrow != 0)
      text += "; packets of " + std::to_string(qp.mtu + kPacketOverhead) + " bytes do not pass " +
              planes_text(qp.peer->narrow);
  } else if (qp.cause == QpErrorCause::unacknowledged) {
    text += "; " + std::to_string(qp.tx.retries.answers()) +
            " probes were answered since it last acknowledged; " +
            std::to_string(qp.stats.retransmits) + " retransmissions in all";
  } else if (qp.cause == QpErrorCause::rnr_exhausted) {
    text +=
        "; waited " + std::to_string(qp.attributes.rnr_retry) + " times (rnr_retry; 7 is for ever)";
  } else if (qp.cause == QpErrorCause::unsupported) {
    text += "; writes go to any peer, these need an OpenMRC device without option strict";
  }
  return text;
}

}  // namespace mrc::inline v0_1::detail
