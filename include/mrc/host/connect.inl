// SPDX-License-Identifier: Apache-2.0
// Lane: queue pairs, from ConnectionInfo to their end.
#pragma once

#include <algorithm>
#include <bit>
#include <mutex>
#include <optional>
#include <utility>

#include "mrc/engine/options.hpp"
#include "mrc/host/lane.hpp"
#include "mrc/host/srq_number.hpp"
#include "mrc/host/strict.hpp"

namespace mrc::inline v0_1::detail {

QpAttributes Lane::default_attributes() const noexcept {
  QpAttributes a;
  a.mtu = planes_.mtu;
  a.mpr = config_.mpr;
  a.mpr_dest = config_.mpr_dest;
  a.max_wimm = config_.max_wimm;
  a.max_wimm_dest = config_.max_wimm_dest;
  a.timeout = config_.timeout;
  a.retry_linear = config_.retry_linear;
  a.retry_exponential = config_.retry_exponential;
  a.dynamic_mpr = config_.dynamic_mpr;
  a.trim_nack = config_.trim != port::Offload::off;
  a.max_rd_atomic = config_.max_rd_atomic;
  a.max_rd_atomic_dest = config_.max_rd_atomic_dest;
  a.rnr_retry = config_.rnr_retry;
  a.min_rnr_timer = config_.min_rnr_timer;
  return config_.strict ? strict_attributes(a) : a;
}

ConnectionInfo Lane::local_info(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  return info_of(qpn);
}

ConnectionInfo Lane::info_of(Qpn qpn) const {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  const QpAttributes& a = qp->attributes;
  ConnectionInfo info;
  info.foreign = false;
  info.solicited = true;
  info.device_guid = guid_;
  info.qpn = qpn;
  info.start_psn = *engine_.start_psn(qpn);
  info.tag = qp->tag.bits();
  info.mtu = qp->state == QpState::rtr || qp->state == QpState::rts ? qp->rtr_mtu : a.mtu;
  info.mtu_multiples = config_.peer != PeerKind::mrc;
  if (!info.mtu_multiples) info.mtu = std::bit_floor(info.mtu);
  info.mpr_dest = a.mpr_dest;
  info.max_wimm_dest = a.max_wimm_dest;
  info.dynamic_mpr = a.dynamic_mpr;
  info.trim_nack = a.trim_nack && asks_for_trims();
  info.rc = a.rc;
  info.max_rd_atomic_dest = a.rc ? a.max_rd_atomic_dest : std::uint8_t{0};
  info.icrc = config_.icrc != port::Offload::off;
  info.network_namespace = planes_.network_namespace;
  info.parts = engine_.options().part_places > 0;
  info.slot = planes_.slot;
  info.receive_window = UINT64_MAX;
  for (const auto& port : planes_.ports) {
    info.planes.push_back(port->address());
    info.port_data.push_back(port->connection_data());
    info.receive_window = std::min(info.receive_window, port->capabilities().receive_buffer);
  }
  while (!info.port_data.empty() && info.port_data.back().empty()) info.port_data.pop_back();
  info.receive_window =
      std::max<std::uint64_t>(info.receive_window / config_.expert.receive_shares, 2 * a.mtu);
  if (config_.strict) return strict_info(std::move(info));
  return info;
}

/// Where a port does not see what switches have trimmed, peers had better not let them trim.
bool Lane::asks_for_trims() const noexcept {
  return config_.trim == port::Offload::on ||
         std::all_of(planes_.ports.begin(), planes_.ports.end(),
                     [](const auto& port) { return port->capabilities().trimmed_packets; });
}

/// How long connecting by ConnectionInfo waits for next hops, in total.
inline constexpr Duration kRouteTime = std::chrono::milliseconds(20);

/// The queue pair, which must be in that state. `doing` begins the text of the error.
const engine::QueuePairState& Lane::in_state(Qpn qpn, QpState state,
                                             const std::string& doing) const {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  if (qp->state != state)
    throw Error(Errc::invalid_state, doing + ": it is in " + to_string(qp->state) +
                                         "; only one in " + to_string(state) + " can");
  return *qp;
}

/// Throws mrc::Error if devices that say this can't be connected to.
void Lane::check_peer(const ConnectionInfo& info, const std::string& doing) const {
  if (info.icrc != (config_.icrc != port::Offload::off))
    throw Error(Errc::incompatible, doing + ": iCRC is on at one side only; set option icrc alike");
}

void Lane::connect(Qpn qpn, const ConnectionInfo& info) {
  const std::string doing = "connecting queue pair to " + to_string(info);
  {
    const std::lock_guard lock(mutex_);
    (void)in_state(qpn, QpState::reset, doing);
    check_peer(info, doing);
    enter_init(qpn, doing);
  }
  try {
    QpChange change;
    change.state = QpState::rtr;
    change.connection = info;
    modify(qpn, change);
    change = {};
    change.state = QpState::rts;
    modify(qpn, change);
  } catch (...) {
    (void)reset_qp(qpn);
    throw;
  }
}

void Lane::modify(Qpn qpn, const QpChange& change) {
  const std::string doing =
      "queue pair " + std::to_string(value(qpn)) + " to " + to_string(change.state);
  const bool rtr = change.state == QpState::rtr;
  const bool to_rtr = change.destination || change.connection || change.receive_psn || change.mtu ||
                      change.rtr != RtrAttributes{};
  if ((to_rtr && !rtr) || (change.rts != RtsAttributes{} && change.state != QpState::rts) ||
      (change.profiles && change.state != QpState::init))
    throw Error(Errc::invalid_argument, doing + ": an attribute of another step is set");
  engine::check(doing, engine::out_of_range(
                           engine::with(engine::with(QpAttributes{}, change.rtr), change.rts)));
  if (rtr) return change.connection ? connect_to(qpn, change, doing) : resolve(qpn, change, doing);
  std::unique_lock lock(mutex_);
  Errc e = Errc::ok;
  switch (change.state) {
    case QpState::init:
      (void)in_state(qpn, QpState::reset, doing);
      to_init(qpn, change.profiles, doing);
      break;
    case QpState::rts:
      (void)in_state(qpn, QpState::rtr, doing);
      e = engine_.to_rts(qpn, monotonic_now(), change.rts);
      break;
    case QpState::err:
      e = engine_.to_error(qpn);
      rounds_.after_post(monotonic_now(), false);
      break;
    default:
      lock.unlock();
      e = reset_qp(qpn);
      lock.lock();
      break;
  }
  progress_.deadline_changed();
  if (e != Errc::ok) throw Error(e, doing);
}

/// With those profiles, or those of the last time; keeps them if they can't be used.
void Lane::to_init(Qpn qpn, const std::optional<QpProfiles>& wanted, const std::string& doing) {
  if (!wanted) return enter_init(qpn, doing);
  QpProfiles& profiles = chosen_[value(qpn)].profiles;
  const QpProfiles before = std::exchange(profiles, *wanted);
  try {
    enter_init(qpn, doing);
  } catch (...) {
    profiles = before;
    throw;
  }
}

void Lane::connect_to(Qpn qpn, const QpChange& change, const std::string& doing) {
  const ConnectionInfo info = config_.strict ? strict_info(*change.connection) : *change.connection;
  if (change.destination)
    throw Error(Errc::invalid_argument, doing + ": give a destination or a connection, not both");
  check_peer(info, doing);
  std::unique_lock lock(mutex_);
  (void)in_state(qpn, QpState::init, doing);
  const PeerId peer = peer_for(lock, qpn, info, doing);
  RemoteQp remote = remote_of(info, peer);
  const QpAttributes& own = engine_.find_qp(qpn)->attributes;
  // Between OpenMRC devices the peer may send from RTR on, before its program names a PSN.
  if (!remote.rc || !own.rc) remote.start_psn = change.receive_psn.value_or(info.start_psn);
  remote.mtu = change.mtu.value_or(0);
  if (remote.mtu == 0) remote.mtu = peers_.agreed_mtu_with(info, own.mtu);
  const bool fits = remote.mtu == peers_.agreed_mtu_with(info, remote.mtu);
  const Errc e = fits ? engine_.to_rtr(qpn, remote, change.rtr) : Errc::incompatible;
  if (e != Errc::ok) {
    peers_.forget_unused(peer);
    throw Error(e, doing + ", connecting to " + to_string(info));
  }
  peers_.log_tags(*engine_.find_qp(qpn), info);
  progress_.deadline_changed();
}

/// The peer of a queue pair in INIT. Other queue pairs go on while next hops are looked up: then
/// the lock is not held for a while.
PeerId Lane::peer_for(std::unique_lock<CourteousMutex>& lock, Qpn qpn, const ConnectionInfo& info,
                      const std::string& doing) {
  const PeerProfiles profiles = profiles_of(qpn);
  if (const auto known = peers_.find(info, profiles.ids)) return *known;
  lock.unlock();
  Peers::Candidate candidate = peers_.make_candidate(info, profiles);
  peers_.await_routes(candidate, kRouteTime);
  lock.lock();
  (void)in_state(qpn, QpState::init, doing);
  const PeerProfiles now = profiles_of(qpn);
  if (const auto known = peers_.find(info, now.ids)) return *known;
  if (now.evs != profiles.evs || now.ids != profiles.ids)  // changed meanwhile
    candidate = peers_.make_candidate(info, now);
  return peers_.add(info, candidate);
}

void Lane::resolve(Qpn qpn, const QpChange& change, const std::string& doing) {
  if (!change.destination || !change.receive_psn)
    throw Error(Errc::invalid_argument,
                doing + ": it needs a connection, or a destination and a receive PSN");
  const Destination& destination = *change.destination;
  if (value(destination.qpn) < kFirstUserQpn || value(destination.qpn) > 0xFFFFFF)
    throw Error(Errc::invalid_argument, doing + ": the destination's QPN is reserved or too large");
  filter_.check(destination.gid);
  const std::lock_guard lock(mutex_);
  (void)in_state(qpn, QpState::init, doing);
  (void)planes_.kind->contacts(planes_, destination.gid,
                               destination.qpn);  // throws if there is no way
  RemoteQp remote;
  remote.qpn = destination.qpn;
  remote.start_psn = *change.receive_psn;
  remote.mtu = change.mtu.value_or(0);
  if (const Errc e = engine_.to_rtr_unresolved(qpn, remote, change.rtr); e != Errc::ok)
    throw Error(e, doing + (e == Errc::incompatible ? ": the MTU is larger than its own" : ""));
  connector_.start(monotonic_now(), qpn, destination);
  connector_.work(monotonic_now());
  rounds_.after_post(monotonic_now(), false);
  progress_.deadline_changed();
}

QpInfo Lane::query(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  QpInfo info;
  info.state = qp->state;
  info.cause = qp->cause;
  info.pd = qp->init.pd;
  info.capacity = qp->init.capacity;
  info.attributes = qp->attributes;
  info.signal_all = qp->init.signal_all;
  info.sends = qp->tx.queue.taken();
  if (qp->init.srq) info.srq = device_srq(index_, *qp->init.srq);
  info.send_psn = qp->start_psn;
  if (const auto chosen = chosen_.find(value(qpn)); chosen != chosen_.end())
    info.profiles = chosen->second.profiles;
  if (qp->state == QpState::rtr || qp->state == QpState::rts || qp->state == QpState::err) {
    info.receive_psn = qp->remote.start_psn;
    info.mtu = qp->mtu;
    info.remote_qpn = qp->remote.qpn;
  }
  if (const auto destination = connector_.destination(qpn)) info.gid = destination->gid;
  info.resolving = qp->peer == nullptr && connector_.destination(qpn).has_value() &&
                   (qp->state == QpState::rtr || qp->state == QpState::rts);
  return info;
}

template <class F>
Errc Lane::disconnect(Qpn qpn, F&& f) noexcept {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  const bool connected = qp->peer != nullptr;
  const PeerId peer = qp->remote.peer;
  connector_.stop(qpn);
  const Errc e = f();
  if (connected) peers_.forget_unused(peer);
  progress_.deadline_changed();
  return e;
}

Errc Lane::close_qp(Qpn qpn) noexcept {
  return disconnect(qpn, [&] {
    (void)rounds_.advance(monotonic_now());
    engine_.send_held_ack(qpn);
    (void)rounds_.send(monotonic_now());  // sends pending acknowledgements
    events_.remove_if([qpn](const DeviceEvent& event) {
      return event.qpn == qpn && (event.kind == DeviceEvent::Kind::qp_error ||
                                  event.kind == DeviceEvent::Kind::last_wqe);
    });
    const Errc e = engine_.destroy_qp(qpn);
    release_profiles(qpn);
    chosen_.erase(value(qpn));
    return e;
  });
}

Errc Lane::reset_qp(Qpn qpn) noexcept {
  return disconnect(qpn, [&] {
    engine_.send_held_ack(qpn);
    (void)rounds_.send(monotonic_now());  // the peer waits for answers
    const Errc e = engine_.to_reset(qpn);
    if (e == Errc::ok) release_profiles(qpn);
    return e;
  });
}

std::string Lane::error_text(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) return {};
  const std::string why = connector_.failure(qpn);
  return peers_.error_text(*qp) + (why.empty() || qp->state != QpState::err ? "" : ": " + why);
}

}  // namespace mrc::inline v0_1::detail
