// SPDX-License-Identifier: Apache-2.0
// QueuePair: a thin cover over its Lane.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1 {

QueuePair::QueuePair(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane, Qpn qpn)
    : core_(std::move(core)), lane_(lane), qpn_(qpn) {}

void QueuePair::swap(QueuePair& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(lane_, other.lane_);
  std::swap(qpn_, other.qpn_);
}
QueuePair& QueuePair::operator=(QueuePair&& other) noexcept {
  QueuePair taken(std::move(other));
  swap(taken);
  return *this;
}
QpState QueuePair::state() const noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok)
    return e == Errc::forked ? QpState::err : QpState::reset;
  return lane_->with_engine([&](engine::Engine& engine, Time) {
    const auto* qp = engine.find_qp(qpn_);
    return qp == nullptr ? QpState::reset : qp->state;
  });
}
unsigned QueuePair::lane() const noexcept {
  return core_ ? lane_->index() : 0;
}
ConnectionInfo QueuePair::local_info() const {
  (void)detail::core_of(core_, "this queue pair was closed");
  return lane_->local_info(qpn_);
}
void QueuePair::connect(const ConnectionInfo& peer) {
  (void)detail::core_of(core_, "this queue pair was closed");
  lane_->connect(qpn_, peer);
}
void QueuePair::modify(const QpChange& change) {
  (void)detail::core_of(core_, "this queue pair was closed");
  lane_->modify(qpn_, change);
}
QpInfo QueuePair::query() const {
  (void)detail::core_of(core_, "this queue pair was closed");
  return lane_->query(qpn_);
}
Errc QueuePair::post_send(const SendRequest& request) noexcept {
  std::size_t posted = 0;
  return post_sends({&request, 1}, posted);
}
Errc QueuePair::post_sends(std::span<const SendRequest> requests, std::size_t& posted) noexcept {
  posted = 0;
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_doorbell([&](engine::Engine& engine, Time now) {
    for (const SendRequest& request : requests) {
      if (const Errc e = engine.post_send(qpn_, request, now); e != Errc::ok) return e;
      ++posted;
    }
    return Errc::ok;
  });
}
Errc QueuePair::post_receive(const ReceiveRequest& request) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_events(
      [&](engine::Engine& engine, Time) { return engine.post_receive(qpn_, request); });
}
Errc QueuePair::complete_send(std::uint64_t wr_id, SendOpcode opcode, WcStatus status) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_events([&](engine::Engine& engine, Time) {
    return engine.complete_send(qpn_, wr_id, opcode, status);
  });
}
Errc QueuePair::discard_completions() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_engine(
      [this](engine::Engine& engine, Time) { return engine.discard_completions(qpn_); });
}
Errc QueuePair::set_hint(const QpHint& hint) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  const std::uint64_t windows = std::clamp(hint.flows_per_peer, 1u, core_->lanes().count());
  const std::uint64_t sharers = std::max(hint.peers, 1u) * windows;
  return lane_->with_engine(
      [=, this](engine::Engine& engine, Time) { return engine.set_sharers(qpn_, sharers); });
}
Errc QueuePair::set_peer_rights(Access rights) noexcept {
  if (!has(kPeerRights, rights)) return Errc::invalid_argument;
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_engine(
      [=, this](engine::Engine& engine, Time) { return engine.set_peer_rights(qpn_, rights); });
}
Errc QueuePair::stop_receiving() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_engine(
      [this](engine::Engine& engine, Time) { return engine.stop_receiving(qpn_); });
}
Errc QueuePair::to_error() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_doorbell([&](engine::Engine& engine, Time) { return engine.to_error(qpn_); });
}
Errc QueuePair::reset() noexcept {
  const Errc e = detail::usable(core_);
  return e == Errc::ok ? lane_->reset_qp(qpn_) : e;
}
std::string QueuePair::error_text() const {
  const Errc e = detail::usable(core_);
  if (e == Errc::forked) return to_string(e);
  return e == Errc::ok ? lane_->error_text(qpn_) : std::string();
}
QpErrorCause QueuePair::error_cause() const noexcept {
  if (detail::usable(core_) != Errc::ok) return QpErrorCause::none;
  return lane_->with_engine([&](engine::Engine& engine, Time) {
    const auto* qp = engine.find_qp(qpn_);
    return qp == nullptr ? QpErrorCause::none : qp->cause;
  });
}
QpStats QueuePair::stats() const {
  if (detail::usable(core_) != Errc::ok) return {};
  return lane_->with_engine([&](engine::Engine& engine, Time) {
    const auto* qp = engine.find_qp(qpn_);
    return qp == nullptr ? QpStats{} : engine.qp_stats(*qp);
  });
}
Errc QueuePair::close() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  const Errc e = lane_->close_qp(qpn_);
  core_.reset();
  lane_ = nullptr;
  return e;
}
QueuePair::~QueuePair() {
  (void)close();
}

}  // namespace mrc::inline v0_1
