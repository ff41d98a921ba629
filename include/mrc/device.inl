// SPDX-License-Identifier: Apache-2.0
// Device: a thin cover over DeviceCore.
#pragma once

#include <string>
#include <utility>

#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1 {

Device::Device(const Config& config)
    : core_(new detail::DeviceCore(config), &detail::DeviceCore::release) {}

Device::Device(const Config& config, std::unique_ptr<detail::PlaneKind> kind)
    : core_(new detail::DeviceCore(config, std::move(kind)), &detail::DeviceCore::release) {}

PdId Device::default_pd() const noexcept {
  return core_->default_pd();
}

PdId Device::alloc_pd() {
  return detail::core_of(core_).alloc_pd();
}
Errc Device::dealloc_pd(PdId pd) noexcept {
  return core_->forked() ? Errc::forked : core_->dealloc_pd(pd);
}

MemoryRegion Device::register_memory(void* address, std::size_t length, Access access,
                                     std::optional<PdId> pd) {
  const std::uint32_t key = detail::core_of(core_).register_memory(
      address, length, access, pd.value_or(core_->default_pd()));
  return MemoryRegion(core_, address, length, key);
}

CompletionChannel Device::create_channel() {
  return CompletionChannel(core_, detail::core_of(core_).create_channel());
}

CompletionQueue Device::create_cq(std::uint32_t depth, const CompletionChannel* channel) {
  if (channel != nullptr && channel->core_ != core_)
    throw Error(Errc::invalid_argument, "the completion channel is empty or of another device");
  const auto cq = detail::core_of(core_).create_cq(depth, channel ? channel->events_ : nullptr);
  return CompletionQueue(core_, cq.id, cq.fd);
}

SharedReceiveQueue Device::create_srq(const SrqOptions& options) {
  const auto srq = detail::core_of(core_).create_srq(options.pd.value_or(core_->default_pd()),
                                                     options.depth, options.sges, options.lane);
  return SharedReceiveQueue(core_, srq.lane, srq.srq);
}

/// The engine's number of the shared receive queue of a new queue pair, which goes to its lane.
/// `option`: which one names another lane, if that is so. Throws mrc::Error.
std::optional<SrqId> Device::use(const SharedReceiveQueue* srq, std::optional<unsigned>& lane,
                                 const char* option) const {
  if (srq == nullptr) return std::nullopt;
  if (srq->core_ != core_)
    throw Error(Errc::invalid_argument, "the shared receive queue is closed or of another device");
  if (lane.value_or(srq->lane()) != srq->lane())
    throw Error(Errc::invalid_argument, std::string(option) + " is " + std::to_string(*lane) +
                                            ", and the shared receive queue is in lane " +
                                            std::to_string(srq->lane()) +
                                            ": leave the option unset");
  lane = srq->lane();
  return srq->srq_;
}

QueuePair Device::create_qp(const QpOptions& options) {
  if (options.send_cq == nullptr)
    throw Error(Errc::invalid_argument, "QpOptions::send_cq is not set");
  const CompletionQueue* receive = options.receive_cq ? options.receive_cq : options.send_cq;
  if (options.send_cq->core_ != core_ || receive->core_ != core_)
    throw Error(Errc::invalid_argument, "the completion queue is closed or of another device");
  engine::QpInit init;
  init.pd = options.pd.value_or(core_->default_pd());
  init.send_cq = options.send_cq->id_;
  init.receive_cq = receive->id_;
  init.capacity = options.capacity;
  init.signal_all = options.signal_all;
  init.as_verbs = options.as_verbs;
  std::optional<unsigned> lane = options.lane;
  init.srq = use(options.srq, lane, "QpOptions::lane");
  const auto qp =
      detail::core_of(core_).create_qp(init, options.attributes, lane, options.profiles);
  return QueuePair(core_, qp.lane, qp.qpn);
}

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
  const auto qp = detail::core_of(core_).create_datagram_qp(init, lane);
  return DatagramQueuePair(core_, qp.lane, qp.qpn);
}

void Device::prepare(const AddressHandle& to, Duration patience) const {
  // Which process it is at the peer makes no difference to the way there.
  detail::core_of(core_).lanes()[0].prepare_datagrams(to.gid, Qpn{}, patience);
}

bool Device::progress() noexcept {
  return !core_->forked() && core_->lanes().poll();
}
void Device::set_faults(std::string_view schedule) {
  detail::core_of(core_).set_faults(schedule);
}
void Device::set_plane_enabled(unsigned plane, bool enabled) {
  detail::core_of(core_).set_plane_enabled(plane, enabled);
}
PlaneState Device::plane_state(unsigned plane) const {
  return detail::core_of(core_).plane_state(plane);
}
std::vector<EndpointResponse> Device::request_endpoints(EndpointOperation operation,
                                                        std::span<const EndpointRequest> requests,
                                                        Duration timeout,
                                                        std::optional<unsigned> dscp) {
  return detail::core_of(core_).request_endpoints(operation, requests, timeout, dscp);
}
void Device::set_receiver_penalty(unsigned penalty, bool restore) {
  if (penalty > 127)
    throw Error(Errc::invalid_argument,
                "receiver penalty " + std::to_string(penalty) + " is not 0 .. 127");
  for (const auto& lane : detail::core_of(core_).lanes())
    (void)lane->with_engine([=](engine::Engine& engine, Time) {
      return engine.set_receiver_penalty(penalty, restore);
    });
}
port::IpAddress Device::gid() const noexcept {
  return core_->gid();
}
int Device::event_fd() const noexcept {
  return core_->events().fd();
}
bool Device::poll_event(DeviceEvent& event) noexcept {
  return !core_->forked() && core_->events().poll(event);
}
const Config& Device::config() const noexcept {
  return core_->config();
}
QpAttributes Device::default_attributes() const noexcept {
  return core_->lanes()[0].default_attributes();
}
unsigned Device::lane_count() const noexcept {
  return core_->lanes().count();
}
unsigned Device::plane_count() const noexcept {
  return core_->plane_count();
}
std::vector<std::string> Device::plane_names() const {
  return core_->plane_names();
}
DeviceStats Device::stats() const {
  return detail::core_of(core_).stats();
}
std::vector<PathReport> Device::paths(const QueuePair& qp) const {
  if (qp.core_ != core_) return {};  // its number may be that of another queue pair here
  (void)detail::core_of(core_);
  return qp.lane_->paths(qp.qpn());
}
std::vector<PathReport> Device::paths(unsigned lane, std::uint32_t peer) const {
  detail::DeviceCore& core = detail::core_of(core_);
  if (lane >= core.lanes().count()) return {};
  return core.lanes()[lane].paths(PeerId{peer}, 0, SIZE_MAX);
}
std::vector<QpReport> Device::queue_pairs() const {
  return detail::core_of(core_).queue_pairs();
}

}  // namespace mrc::inline v0_1
