// SPDX-License-Identifier: Apache-2.0
// Lane: datagram queue pairs.
#pragma once

#include <algorithm>
#include <bit>
#include <mutex>

#include "mrc/host/lane.hpp"
#include "mrc/host/srq_number.hpp"

namespace mrc::inline v0_1::detail {

Result<Qpn> Lane::create_datagram_qp(engine::DatagramInit init) {
  init.mtu = std::bit_floor(std::min(planes_.mtu, wire::kMaxDatagram));
  const std::lock_guard lock(mutex_);
  return engine_.create_datagram_qp(init);
}

DatagramInfo Lane::query_datagram_qp(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::DatagramState* qp = engine_.find_datagram_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  DatagramInfo info;
  info.state = qp->state;
  info.cause = qp->cause;
  info.pd = qp->init.pd;
  info.capacity = qp->init.capacity;
  info.mtu = qp->init.mtu;
  info.q_key = qp->q_key;
  info.send_psn = qp->first_psn + static_cast<std::int32_t>(qp->queue.posted() & 0xFFFFFF);
  info.signal_all = qp->init.signal_all;
  info.sends = qp->queue.taken();
  if (qp->init.srq) info.srq = device_srq(index_, *qp->init.srq);
  info.stats = qp->stats;
  return info;
}

void Lane::prepare_datagrams(const port::IpAddress& gid, Qpn remote, Duration patience) {
  const DatagramRoutes::Plan plan = datagram_routes_.plan(gid, remote);
  const DatagramRoutes::Way& way = plan.ways.front();
  const Plane plane = way.contact.plane;
  const Port& port = *planes_.ports[plane];
  const std::string why = port.await_route(way.paths.route, patience);
  if (!why.empty())
    throw Error(Errc::unreachable, "GID " + port::format_local({gid, port.zone()}) + " by plane " +
                                       std::to_string(plane) + ": " + why);
}

Errc Lane::post_datagrams(Qpn qpn, std::span<const DatagramRequest> requests,
                          std::size_t& posted) noexcept {
  return with_doorbell([&](engine::Engine& engine, Time now) {
    for (const DatagramRequest& request : requests) {
      const auto to = datagram_routes_.find(now, request.to.gid, request.remote_qpn, qpn);
      const Errc e = to ? engine.post_datagram(qpn, request, to.value()) : to.error();
      if (e != Errc::ok) return e;
      ++posted;
    }
    return Errc::ok;
  });
}

Errc Lane::close_datagram_qp(Qpn qpn) noexcept {
  const std::lock_guard lock(mutex_);
  if (engine_.find_datagram_qp(qpn) == nullptr) return Errc::not_found;
  (void)rounds_.send(monotonic_now());  // what is posted
  events_.remove_if([qpn](const DeviceEvent& event) {
    return event.qpn == qpn &&
           (event.kind == DeviceEvent::Kind::qp_error || event.kind == DeviceEvent::Kind::last_wqe);
  });
  const Errc e = engine_.destroy_datagram_qp(qpn);
  progress_.deadline_changed();
  return e;
}

}  // namespace mrc::inline v0_1::detail
