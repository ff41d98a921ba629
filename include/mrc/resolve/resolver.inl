// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/resolve/resolver.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

#include "mrc/core/random.hpp"
#include "mrc/core/system.hpp"
#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/resolve/packets.hpp"

namespace mrc::inline v0_1::detail {

[[nodiscard]] ResolutionOptions resolution_options(const Config& config) {
  ResolutionOptions o;
  o.key = random_key();
  o.patience = config.connect_timeout;
  o.silence = std::min<Duration>(o.silence, o.patience / 5);
  return o;
}

LaneResolver::LaneResolver(Lane& lane)
    : lane_(lane),
      endpoint_requests_(lane.config(), lane.planes(), lane.engine(), lane.filter()),
      connector_(
          lane.config(), lane.log(), lane.planes(), lane.engine(), lane.peer_table(), lane.filter(),
          lane.steering(), resolution_options(lane.config()),
          [&lane](Qpn qpn) { return lane.info_of(qpn); },
          [&lane](Qpn qpn) { return lane.profiles_of(qpn); },
          [this](std::uint64_t question, const Contact& from) {
            datagram_routes_.on_answer(question, from);
          }),
      datagram_routes_(lane.config(), lane.planes(), lane.engine(), connector_, lane.filter(),
                       lane.steering()) {}

LaneResolver& resolver_of(Lane& lane) {
  if (lane.resolver() == nullptr)
    throw lacking("datagrams and endpoint requests", "them", "resolve");
  return static_cast<LaneResolver&>(*lane.resolver());
}

std::unique_ptr<Resolver> make_resolver(Lane& lane) {
  return std::make_unique<LaneResolver>(lane);
}

void LaneResolver::work(Time now) noexcept {
  if (lane_.engine().endpoint().has_resolution() || connector_.next_deadline() <= now)
    connector_.work(now);
}

void LaneResolver::add_to(DeviceStats& stats) const {
  stats.resolutions_answered += connector_.answers();
  stats.resolutions_refused += connector_.refused();
}

std::vector<EndpointResponse> LaneResolver::request_endpoints(
    EndpointOperation operation, std::span<const EndpointRequest> requests, Duration timeout,
    std::uint8_t dscp) {
  EndpointRequests::Batch batch = endpoint_requests_.prepare(operation, requests, dscp);
  const Time begin = monotonic_now();
  const Time end = timeout < kNever - begin ? begin + timeout : kNever;
  {
    const std::lock_guard lock(lane_.mutex());
    endpoint_requests_.open(batch);
  }
  const auto close = [&] {
    const std::lock_guard lock(lane_.mutex());
    endpoint_requests_.close(batch);
  };
  try {
    lane_.round_until(end, [&](Time now) {
      endpoint_requests_.work(now, batch);
      return !batch.done();
    });
  } catch (...) {
    close();
    throw;
  }
  close();
  return std::move(batch.responses);
}

// LaneResolver: datagram queue pairs.

Result<Qpn> LaneResolver::create_datagram_qp(engine::DatagramInit init) {
  init.mtu = std::bit_floor(std::min(lane_.planes().mtu, wire::kMaxDatagram));
  const std::lock_guard lock(lane_.mutex());
  return engine::create_datagram_qp(lane_.engine(), init);
}

DatagramInfo LaneResolver::query_datagram_qp(Qpn qpn) {
  const std::lock_guard lock(lane_.mutex());
  const engine::DatagramState* qp = engine::find_datagram_qp(lane_.engine(), qpn);
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
  if (qp->init.srq) info.srq = device_srq(lane_.index(), *qp->init.srq);
  info.stats = qp->stats;
  return info;
}

void LaneResolver::prepare_datagrams(const port::IpAddress& gid, Qpn remote, Duration patience) {
  const DatagramRoutes::Plan plan = datagram_routes_.plan(gid, remote);
  const DatagramRoutes::Way& way = plan.ways.front();
  const Plane plane = way.contact.plane;
  const Port& port = *lane_.planes().ports[plane];
  const std::string why = port.await_route(way.paths.route, patience);
  if (!why.empty())
    throw Error(Errc::unreachable, "GID " + port::format_local({gid, port.zone()}) + " by plane " +
                                       std::to_string(plane) + ": " + why);
}

Errc LaneResolver::post_datagrams(Qpn qpn, std::span<const DatagramRequest> requests,
                                  std::size_t& posted) noexcept {
  return lane_.with_doorbell([&](engine::Engine& engine, Time now) {
    for (const DatagramRequest& request : requests) {
      const auto to = datagram_routes_.find(now, request.to.gid, request.remote_qpn, qpn);
      const Errc e = to ? engine::post_datagram(engine, qpn, request, to.value()) : to.error();
      if (e != Errc::ok) return e;
      ++posted;
    }
    return Errc::ok;
  });
}

Errc LaneResolver::close_datagram_qp(Qpn qpn) noexcept {
  const std::lock_guard lock(lane_.mutex());
  if (engine::find_datagram_qp(lane_.engine(), qpn) == nullptr) return Errc::not_found;
  (void)lane_.rounds().send(monotonic_now());  // what is posted
  lane_.events().remove_if([qpn](const DeviceEvent& event) {
    return event.qpn == qpn &&
           (event.kind == DeviceEvent::Kind::qp_error || event.kind == DeviceEvent::Kind::last_wqe);
  });
  const Errc e = engine::destroy_datagram_qp(lane_.engine(), qpn);
  lane_.progress().deadline_changed();
  return e;
}

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1 {

// Device: thin covers over the LaneResolver of a lane.

DatagramQueuePair Device::create_datagram_qp(const DatagramOptions& options) {
  if (options.send_cq == nullptr)
    throw Error(Errc::invalid_argument, "DatagramOptions::send_cq is not set");
  const CompletionQueue* receive = options.receive_cq ? options.receive_cq : options.send_cq;
  if (options.send_cq->core_ != core_ || receive->core_ != core_)
    throw Error(Errc::invalid_argument, "the completion queue is closed or of another device");
  engine::DatagramInit init;
  init.pd = options.pd.value_or(core_->default_pd());
  init.send_cq = options.send_cq->id_;
  init.receive_cq = receive->id_;
  init.capacity = options.capacity;
  init.signal_all = options.signal_all;
  init.as_verbs = options.as_verbs;
  std::optional<unsigned> lane = options.lane;
  init.srq = use(options.srq, lane, "DatagramOptions::lane");
  const auto qp = detail::core_of(core_).create_in_lane(
      lane, "DatagramOptions::lane", init,
      [&](detail::Lane& in) { return detail::resolver_of(in).create_datagram_qp(init); });
  return DatagramQueuePair(core_, qp.lane, qp.qpn);
}

void Device::prepare(const AddressHandle& to, Duration patience) const {
  // Which process it is at the peer makes no difference to the way there.
  detail::resolver_of(detail::core_of(core_).lanes()[0]).prepare_datagrams(to.gid, Qpn{}, patience);
}

/// By the first lane: to the other hosts each is like a process, and one is enough.
std::vector<EndpointResponse> Device::request_endpoints(EndpointOperation operation,
                                                        std::span<const EndpointRequest> requests,
                                                        Duration timeout,
                                                        std::optional<unsigned> dscp) {
  detail::DeviceCore& core = detail::core_of(core_);
  const unsigned in_force = dscp.value_or(core.config().expert.dscp_control);
  if (in_force > 63)
    throw Error(Errc::invalid_argument, "DSCP " + std::to_string(in_force) + " is not 0 .. 63");
  if (detail::dscp_of(core.config()).classify(static_cast<std::uint8_t>(in_force)) !=
      wire::Trim::none)
    throw Error(Errc::invalid_argument,
                "DSCP " + std::to_string(in_force) +
                    " says that a switch has trimmed a packet (options dscp_trimmed and "
                    "dscp_trimmed_last_hop): receivers would drop the requests");
  return detail::resolver_of(core.lanes()[0])
      .request_endpoints(operation, requests, timeout, static_cast<std::uint8_t>(in_force));
}

// DatagramQueuePair: the same.

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
    const auto* qp = engine::find_datagram_qp(engine, qpn_);
    return qp == nullptr ? QpState::reset : qp->state;
  });
}
Errc DatagramQueuePair::modify(const DatagramChange& change) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_doorbell([&](engine::Engine& engine, Time) {
    return engine::modify_datagram_qp(engine, qpn_, change);
  });
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
  return detail::resolver_of(*lane_).query_datagram_qp(qpn_);
}
void DatagramQueuePair::prepare(const AddressHandle& to, Qpn remote, Duration patience) const {
  (void)detail::core_of(core_, "this queue pair was closed");
  detail::resolver_of(*lane_).prepare_datagrams(to.gid, remote, patience);
}
Errc DatagramQueuePair::post_send(const DatagramRequest& request) noexcept {
  std::size_t posted = 0;
  return post_sends({&request, 1}, posted);
}
Errc DatagramQueuePair::post_sends(std::span<const DatagramRequest> requests,
                                   std::size_t& posted) noexcept {
  posted = 0;
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return detail::resolver_of(*lane_).post_datagrams(qpn_, requests, posted);
}
Errc DatagramQueuePair::post_receive(const ReceiveRequest& request) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_events([&](engine::Engine& engine, Time) {
    return engine::post_datagram_receive(engine, qpn_, request);
  });
}
Errc DatagramQueuePair::complete_send(std::uint64_t wr_id, WcStatus status) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_events([&](engine::Engine& engine, Time) {
    return engine.complete_send(qpn_, wr_id, SendOpcode::send, status);
  });
}
Errc DatagramQueuePair::close() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  const Errc e = detail::resolver_of(*lane_).close_datagram_qp(qpn_);
  core_.reset();
  lane_ = nullptr;
  return e;
}
DatagramQueuePair::~DatagramQueuePair() {
  (void)close();
}

}  // namespace mrc::inline v0_1
