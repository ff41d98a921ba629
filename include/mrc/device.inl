// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/device.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "mrc/core/unique_fd.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/host/peers.hpp"

namespace mrc::inline v0_1 {

// The handles: thin covers over DeviceCore, and Lane or its engine.

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
  return CompletionChannel(
      core_, std::make_shared<detail::ChannelEvents>(detail::core_of(core_).config().max_cqs));
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
  detail::DeviceCore& core = detail::core_of(core_);
  core.lanes()[0].check_profiles(options.profiles, std::string(core.kCreatingQp));
  const auto qp = core.create_in_lane(lane, "QpOptions::lane", init, [&](detail::Lane& in) {
    init.attributes = options.attributes.value_or(in.default_attributes());
    if (core.config().strict) init.attributes = detail::strict_attributes(init.attributes);
    engine::check(core.kCreatingQp, engine::out_of_range(init.attributes));
    const Result<Qpn> qpn =
        in.with_engine([&](engine::Engine& engine, Time) { return engine.create_qp(init); });
    if (qpn && options.profiles != QpProfiles{}) in.set_profiles(qpn.value(), options.profiles);
    return qpn;
  });
  return QueuePair(core_, qp.lane, qp.qpn);
}

bool Device::progress() noexcept {
  return !core_->forked() && core_->lanes().poll();
}
void Device::set_plane_enabled(unsigned plane, bool enabled) {
  detail::core_of(core_).set_plane_enabled(plane, enabled);
}
PlaneState Device::plane_state(unsigned plane) const {
  detail::DeviceCore& core = detail::core_of(core_);
  core.check_plane(plane);
  return core.lanes()[0].plane_state(plane);
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
  const detail::Lane& lane = core_->lanes()[0];
  return lane.planes().ports[lane.gid_plane()]->address().ip;
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
  std::vector<std::string> names;
  for (const auto& port : core_->lanes()[0].planes().ports)
    names.push_back(
        port::format_local({port->address().ip, port->zone()}, port->address().udp_port));
  return names;
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
  std::vector<QpReport> reports;
  for (const auto& lane : detail::core_of(core_).lanes())
    for (std::size_t at = 0; at < lane->qp_places();)
      for (QpReport& report : lane->queue_pairs(at)) reports.push_back(std::move(report));
  return reports;
}

CompletionChannel::CompletionChannel(std::shared_ptr<detail::DeviceCore> core,
                                     std::shared_ptr<detail::ChannelEvents> events)
    : core_(std::move(core)), events_(std::move(events)) {}

int CompletionChannel::fd() const noexcept {
  return events_ ? events_->events.fd() : -1;
}

std::optional<CqId> CompletionChannel::poll() noexcept {
  CqId cq{};
  if (detail::usable(core_) != Errc::ok || !core_->cq_events().take(*events_, cq))
    return std::nullopt;
  return cq;
}

std::optional<CqId> CompletionChannel::wait(Duration timeout) noexcept {
  const Time now = monotonic_now();
  const Time end = timeout >= kNever - now ? kNever : now + timeout;
  for (;;) {
    if (const auto cq = poll(); cq || detail::usable(core_) != Errc::ok) return cq;
    const Duration left = end - monotonic_now();
    if (left <= Duration::zero()) return std::nullopt;
    pollfd ready{fd(), POLLIN, 0};
    const timespec limit{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    const Uncancelled waiting;
    if (::ppoll(&ready, 1, end == kNever ? nullptr : &limit, nullptr) < 0 && errno != EINTR)
      return std::nullopt;
  }
}

CompletionQueue::CompletionQueue(std::shared_ptr<detail::DeviceCore> core, CqId id, int fd)
    : core_(std::move(core)), id_(id), fd_(fd) {}

void CompletionQueue::swap(CompletionQueue& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(id_, other.id_);
  std::swap(fd_, other.fd_);
}
CompletionQueue& CompletionQueue::operator=(CompletionQueue&& other) noexcept {
  CompletionQueue(std::move(other)).swap(*this);
  return *this;
}
std::size_t CompletionQueue::poll(std::span<Completion> out) noexcept {
  return detail::usable(core_) == Errc::ok ? core_->lanes().poll_cq(id_, out) : 0;
}
std::size_t CompletionQueue::wait(std::span<Completion> out, Duration timeout) {
  if (!core_) return 0;
  return detail::core_of(core_, "").lanes().wait_cq(id_, out, timeout);
}
Errc CompletionQueue::arm(Arm what) noexcept {
  const Errc e = detail::usable(core_);
  return e == Errc::ok ? core_->lanes().arm_cq(id_, what) : e;
}
void CompletionQueue::acknowledge(unsigned events) noexcept {
  if (detail::usable(core_) == Errc::ok) core_->cq_events().acknowledge(id_, events);
}
int CompletionQueue::fd() const noexcept {
  return fd_;
}
bool CompletionQueue::overrun() const noexcept {
  if (detail::usable(core_) != Errc::ok) return false;
  const auto overrun = [this](const auto& lane) {
    return lane->with_engine([this](engine::Engine& engine, Time) {
      const engine::CompletionRing* ring = engine.find_cq(id_);
      return ring != nullptr && ring->overrun;
    });
  };
  return std::any_of(core_->lanes().begin(), core_->lanes().end(), overrun);
}
Errc CompletionQueue::close() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  if (const Errc e = core_->close_cq(id_); e != Errc::ok) return e;
  core_.reset();
  fd_ = -1;
  return Errc::ok;
}
/// A queue that is still used stays in the device, which destroys it in the end.
CompletionQueue::~CompletionQueue() {
  (void)close();
}

MemoryRegion::MemoryRegion(std::shared_ptr<detail::DeviceCore> core, void* address,
                           std::size_t length, std::uint32_t key)
    : core_(std::move(core)), address_(address), length_(length), key_(key) {}

void MemoryRegion::swap(MemoryRegion& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(address_, other.address_);
  std::swap(length_, other.length_);
  std::swap(key_, other.key_);
}
MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  MemoryRegion(std::move(other)).swap(*this);
  return *this;
}
Errc MemoryRegion::close() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  const Errc e = core_->deregister_memory(key_, false);
  if (e != Errc::ok) return e;
  core_.reset();
  address_ = nullptr;
  length_ = 0;
  key_ = 0;
  return Errc::ok;
}
MemoryRegion::~MemoryRegion() {
  if (const Errc e = close(); e == Errc::ok || e == Errc::not_found || e == Errc::forked) return;
  (void)core_->deregister_memory(key_, true);
}

QueuePair::QueuePair(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane, Qpn qpn)
    : core_(std::move(core)), lane_(lane), qpn_(qpn) {}

void QueuePair::swap(QueuePair& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(lane_, other.lane_);
  std::swap(qpn_, other.qpn_);
}
QueuePair& QueuePair::operator=(QueuePair&& other) noexcept {
  QueuePair(std::move(other)).swap(*this);
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

SharedReceiveQueue::SharedReceiveQueue(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane,
                                       SrqId srq)
    : core_(std::move(core)), lane_(lane), srq_(srq) {}

void SharedReceiveQueue::swap(SharedReceiveQueue& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(lane_, other.lane_);
  std::swap(srq_, other.srq_);
}
SharedReceiveQueue& SharedReceiveQueue::operator=(SharedReceiveQueue&& other) noexcept {
  SharedReceiveQueue(std::move(other)).swap(*this);
  return *this;
}
SrqId SharedReceiveQueue::id() const noexcept {
  return core_ ? detail::device_srq(lane_->index(), srq_) : SrqId{};
}
unsigned SharedReceiveQueue::lane() const noexcept {
  return core_ ? lane_->index() : 0;
}
Errc SharedReceiveQueue::post_receive(const ReceiveRequest& request) noexcept {
  std::size_t posted = 0;
  return post_receives({&request, 1}, posted);
}
Errc SharedReceiveQueue::post_receives(std::span<const ReceiveRequest> requests,
                                       std::size_t& posted) noexcept {
  posted = 0;
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_engine([&](engine::Engine& engine, Time) {
    for (const ReceiveRequest& request : requests) {
      if (const Errc e = engine.post_receive(srq_, request); e != Errc::ok) return e;
      ++posted;
    }
    return Errc::ok;
  });
}
Errc SharedReceiveQueue::set_limit(std::uint32_t limit) noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  return lane_->with_doorbell(  // there may be an event at once
      [&](engine::Engine& engine, Time) { return engine.set_srq_limit(srq_, limit); });
}
SrqInfo SharedReceiveQueue::query() const {
  constexpr const char* kClosed = "this shared receive queue was closed";
  (void)detail::core_of(core_, kClosed);
  return lane_->with_engine([&](engine::Engine& engine, Time) {
    const engine::SharedReceiveQueue* srq = engine.find_srq(srq_);
    if (srq == nullptr) throw Error(Errc::not_found, kClosed);
    SrqInfo info;
    info.pd = srq->pd;
    info.depth = static_cast<std::uint32_t>(srq->receives.capacity());
    info.sges = srq->receives.sge_limit();
    info.posted = static_cast<std::uint32_t>(srq->receives.size());
    info.limit = srq->limit;
    info.users = srq->users;
    return info;
  });
}
Errc SharedReceiveQueue::close() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  if (const Errc e = core_->close_srq(*lane_, srq_); e != Errc::ok) return e;
  core_.reset();
  lane_ = nullptr;
  return Errc::ok;
}
/// A queue that is still used stays in the device, which destroys it in the end.
SharedReceiveQueue::~SharedReceiveQueue() {
  (void)close();
}

}  // namespace mrc::inline v0_1
