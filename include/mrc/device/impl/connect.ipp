// SPDX-License-Identifier: Apache-2.0
// DeviceCore: queue pairs, from ConnectionInfo to their end.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>

#include "mrc/device/core.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP QpAttributes DeviceCore::default_attributes() const noexcept {
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
  a.trim_nack = config_.trim;
  return a;
}

MRC_SETUP ConnectionInfo DeviceCore::local_info(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
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
  info.slot = planes_.slot;
  info.receive_window = UINT64_MAX;
  for (const auto& port : planes_.ports) {
    info.planes.push_back(port->address());
    info.receive_window = std::min(info.receive_window, port->capabilities().receive_buffer);
  }
  info.receive_window =
      std::max<std::uint64_t>(info.receive_window / config_.receive_shares, 2 * a.mtu);
  return info;
}

/// How long connect() waits for next hops, in total.
inline constexpr Duration kRouteTime = std::chrono::milliseconds(20);

/// Can the queue pair be connected to that one? Throws mrc::Error if not.
MRC_SETUP const engine::QueuePairState& DeviceCore::connectable(Qpn qpn,
                                                                const ConnectionInfo& info) const {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  const std::string what = "connecting queue pair to " + to_string(info);
  if (qp->state != QpState::reset)
    throw Error(Errc::invalid_state, what + ": it is in " + to_string(qp->state) +
                                         "; only one in RESET can be connected");
  if (info.icrc != config_.icrc)
    throw Error(Errc::incompatible, what + ": iCRC is on at one side only; set option icrc alike");
  if (slot_of(info.qpn) != info.slot)
    throw Error(Errc::bad_message, what + ": its QPN does not belong to its slot");
  return *qp;
}

MRC_SETUP void DeviceCore::connect(Qpn qpn, const ConnectionInfo& info) {
  std::unique_lock lock(mutex_);
  (void)connectable(qpn, info);
  std::optional<PeerId> peer = peers_.find(info);
  if (!peer) {  // other queue pairs go on while next hops are looked up
    lock.unlock();
    const Peers::Candidate candidate = peers_.make_candidate(info);
    peers_.await_routes(candidate, kRouteTime);
    lock.lock();
    (void)connectable(qpn, info);
    peer = peers_.add(info, candidate);
  }
  const engine::QueuePairState& qp = connectable(qpn, info);
  RemoteQp remote;
  remote.peer = *peer;
  remote.qpn = info.qpn;
  remote.start_psn = info.start_psn;
  remote.mtu = std::min(info.mtu, qp.init.attributes.mtu);
  remote.mpr_dest = info.mpr_dest;
  remote.max_wimm_dest = info.max_wimm_dest;
  remote.dynamic_mpr = info.dynamic_mpr;
  remote.trim_nack = info.trim_nack;
  Errc e = engine_.to_init(qpn);
  if (e == Errc::ok) e = engine_.to_rtr(qpn, remote);
  if (e == Errc::ok) e = engine_.to_rts(qpn, monotonic_now());
  if (e != Errc::ok) {
    (void)engine_.to_reset(qpn);
    peers_.forget_unused(*peer);
    throw Error(e, "connecting queue pair to " + to_string(info));
  }
  progress_.deadline_changed();
}

template <class F>
Errc DeviceCore::disconnect(Qpn qpn, F&& f) noexcept {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  const bool connected = qp->peer != nullptr;
  const PeerId peer = qp->remote.peer;
  const Errc e = f();
  if (connected) peers_.forget_unused(peer);
  progress_.deadline_changed();
  return e;
}

MRC_SETUP Errc DeviceCore::close_qp(Qpn qpn) noexcept {
  return disconnect(qpn, [&] {
    (void)rounds_.advance(monotonic_now());  // sends pending acknowledgements
    return engine_.destroy_qp(qpn);
  });
}

MRC_SETUP Errc DeviceCore::reset_qp(Qpn qpn) noexcept {
  return disconnect(qpn, [&] {
    if (rounds_.work_left()) (void)rounds_.send(monotonic_now());  // the peer waits for answers
    return engine_.to_reset(qpn);
  });
}

MRC_SETUP std::string DeviceCore::error_text(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  return qp == nullptr ? std::string() : peers_.error_text(*qp);
}

}  // namespace mrc::inline v0_1::detail
