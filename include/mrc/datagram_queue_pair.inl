// SPDX-License-Identifier: Apache-2.0
// DatagramQueuePair: a thin cover over its Lane.
#pragma once

#include <utility>

#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1 {

DatagramQueuePair::DatagramQueuePair(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane,
                                     Qpn qpn)
    : core_(std::move(core)), lane_(lane), qpn_(qpn) {}

void DatagramQueuePair::swap(DatagramQueuePair& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(lane_, other.lane_);
  std::swap(qpn_, other.qpn_);
}
DatagramQueuePair& DatagramQueuePair::operator=(DatagramQueuePair&& other) noexcept {
  DatagramQueuePair taken(std::move(other));
  swap(taken);
  return *this;
}
unsigned DatagramQueuePair::lane() const noexcept {
  return core_ ? lane_->index() : 0;
}
QpState DatagramQueuePair::state() const noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok)
    return e == Errc::forked ? QpState::err : QpState::reset;
  return lane_->with_engine([&](engine::Engine& engine, Time) {
    const auto* qp = engine.find_datagram_qp(qpn_);
    return qp == nullptr ? QpState::reset : qp->state;
  });
}
Errc DatagramQueuePair::modify(const DatagramChange& change) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_doorbell(
      [&](engine::Engine& engine, Time) { return engine.modify_datagram_qp(qpn_, change); });
}
Errc DatagramQueuePair::start(std::uint32_t q_key) noexcept {
  if (detail::usable(core_) == Errc::ok && state() != QpState::reset) return Errc::invalid_state;
  for (const QpState step : {QpState::init, QpState::rtr, QpState::rts}) {
    DatagramChange change;
    change.state = step;
    if (step == QpState::init) change.q_key = q_key;
    if (const Errc e = modify(change); e != Errc::ok) return e;
  }
  return Errc::ok;
}
DatagramInfo DatagramQueuePair::query() const {
  (void)detail::core_of(core_, "this queue pair was closed");
  return lane_->query_datagram_qp(qpn_);
}
void DatagramQueuePair::prepare(const AddressHandle& to, Qpn remote, Duration patience) const {
  (void)detail::core_of(core_, "this queue pair was closed");
  lane_->prepare_datagrams(to.gid, remote, patience);
}
Errc DatagramQueuePair::post_send(const DatagramRequest& request) noexcept {
  std::size_t posted = 0;
  return post_sends({&request, 1}, posted);
}
Errc DatagramQueuePair::post_sends(std::span<const DatagramRequest> requests,
                                   std::size_t& posted) noexcept {
  posted = 0;
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->post_datagrams(qpn_, requests, posted);
}
Errc DatagramQueuePair::post_receive(const ReceiveRequest& request) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_events(
      [&](engine::Engine& engine, Time) { return engine.post_datagram_receive(qpn_, request); });
}
Errc DatagramQueuePair::complete_send(std::uint64_t wr_id, WcStatus status) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_events([&](engine::Engine& engine, Time) {
    return engine.complete_send(qpn_, wr_id, SendOpcode::send, status);
  });
}
Errc DatagramQueuePair::close() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  const Errc e = lane_->close_datagram_qp(qpn_);
  core_.reset();
  lane_ = nullptr;
  return e;
}
DatagramQueuePair::~DatagramQueuePair() {
  (void)close();
}

}  // namespace mrc::inline v0_1
