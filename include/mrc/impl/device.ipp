// SPDX-License-Identifier: Apache-2.0
// Device and its handles: thin covers over DeviceCore.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <string>

#include "mrc/device.hpp"
#include "mrc/device/core.hpp"

namespace mrc::inline v0_1 {

// --- MemoryRegion ---------------------------------------------------------------------------

MRC_DECL MemoryRegion::MemoryRegion(std::shared_ptr<detail::DeviceCore> core, void* address,
                                    std::size_t length, std::uint32_t key)
    : core_(std::move(core)), address_(address), length_(length), key_(key) {}

MRC_DECL void MemoryRegion::swap(MemoryRegion& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(address_, other.address_);
  std::swap(length_, other.length_);
  std::swap(key_, other.key_);
}
MRC_DECL MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  MemoryRegion taken(std::move(other));
  swap(taken);
  return *this;
}
MRC_DECL Errc MemoryRegion::close() noexcept {
  if (!core_) return Errc::not_found;
  const Errc e = core_->with_engine(
      [&](engine::Engine& engine, Time) { return engine.deregister_memory(key_); });
  if (e != Errc::ok) return e;
  core_->count_object(&DeviceStats::mrs, -1);
  core_.reset();
  address_ = nullptr;
  length_ = 0;
  key_ = 0;
  return Errc::ok;
}
MRC_DECL MemoryRegion::~MemoryRegion() {
  if (!core_ || close() == Errc::ok) return;
  (void)core_->with_doorbell(
      [&](engine::Engine& engine, Time) { return engine.deregister_memory(key_, true); });
  core_->count_object(&DeviceStats::mrs, -1);
}

// --- CompletionQueue --------------------------------------------------------------------------

MRC_DECL CompletionQueue::CompletionQueue(std::shared_ptr<detail::DeviceCore> core, CqId id, int fd)
    : core_(std::move(core)), id_(id), fd_(fd) {}

MRC_DECL void CompletionQueue::swap(CompletionQueue& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(id_, other.id_);
  std::swap(fd_, other.fd_);
}
MRC_DECL CompletionQueue& CompletionQueue::operator=(CompletionQueue&& other) noexcept {
  CompletionQueue taken(std::move(other));
  swap(taken);
  return *this;
}
MRC_DECL std::size_t CompletionQueue::poll(std::span<Completion> out) noexcept {
  return core_ ? core_->poll_cq(id_, out) : 0;
}
MRC_DECL std::size_t CompletionQueue::wait(std::span<Completion> out, Duration timeout) {
  return core_ ? core_->wait_cq(id_, fd_, out, timeout) : 0;
}
MRC_DECL Errc CompletionQueue::arm() noexcept {
  return core_ ? core_->arm_cq(id_) : Errc::not_found;
}
MRC_DECL int CompletionQueue::fd() const noexcept {
  return fd_;
}
MRC_DECL bool CompletionQueue::overrun() const noexcept {
  return core_ && core_->with_engine([&](engine::Engine& engine, Time) {
    const engine::CompletionRing* cq = engine.find_cq(id_);
    return cq != nullptr && cq->overrun();
  });
}
MRC_DECL Errc CompletionQueue::close() noexcept {
  if (!core_) return Errc::not_found;
  if (const Errc e = core_->close_cq(id_); e != Errc::ok) return e;
  ::close(fd_);
  core_->count_object(&DeviceStats::cqs, -1);
  core_.reset();
  fd_ = -1;
  return Errc::ok;
}
/// A queue that is still used lives on inside the device, unseen, until the device goes.
MRC_DECL CompletionQueue::~CompletionQueue() {
  (void)close();
}

// --- QueuePair ----------------------------------------------------------------------------------

MRC_DECL QueuePair::QueuePair(std::shared_ptr<detail::DeviceCore> core, Qpn qpn)
    : core_(std::move(core)), qpn_(qpn) {}

MRC_DECL void QueuePair::swap(QueuePair& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(qpn_, other.qpn_);
}
MRC_DECL QueuePair& QueuePair::operator=(QueuePair&& other) noexcept {
  QueuePair taken(std::move(other));
  swap(taken);
  return *this;
}
MRC_DECL QpState QueuePair::state() const noexcept {
  if (!core_) return QpState::reset;
  return core_->with_engine([&](engine::Engine& engine, Time) {
    const auto* qp = engine.find_qp(qpn_);
    return qp == nullptr ? QpState::reset : qp->state;
  });
}
MRC_DECL ConnectionInfo QueuePair::local_info() const {
  if (!core_) throw Error(Errc::not_found, "this queue pair was closed");
  return core_->local_info(qpn_);
}
MRC_DECL void QueuePair::connect(const ConnectionInfo& peer) {
  if (!core_) throw Error(Errc::not_found, "this queue pair was closed");
  core_->connect(qpn_, peer);
}
MRC_DECL Errc QueuePair::post_write(const WriteRequest& request) noexcept {
  std::size_t posted = 0;
  return post_writes({&request, 1}, posted);
}
MRC_DECL Errc QueuePair::post_writes(std::span<const WriteRequest> requests,
                                     std::size_t& posted) noexcept {
  posted = 0;
  if (!core_) return Errc::not_found;
  return core_->with_doorbell([&](engine::Engine& engine, Time now) {
    for (const WriteRequest& request : requests) {
      if (const Errc e = engine.post_write(qpn_, request, now); e != Errc::ok) return e;
      ++posted;
    }
    return Errc::ok;
  });
}
MRC_DECL Errc QueuePair::post_receive(std::uint64_t wr_id) noexcept {
  if (!core_) return Errc::not_found;
  return core_->with_engine(
      [&](engine::Engine& engine, Time) { return engine.post_receive(qpn_, wr_id); });
}
MRC_DECL Errc QueuePair::to_error() noexcept {
  if (!core_) return Errc::not_found;
  return core_->with_doorbell([&](engine::Engine& engine, Time) { return engine.to_error(qpn_); });
}
MRC_DECL Errc QueuePair::reset() noexcept {
  return core_ ? core_->reset_qp(qpn_) : Errc::not_found;
}
MRC_DECL std::string QueuePair::error_text() const {
  return core_ ? core_->error_text(qpn_) : std::string();
}
MRC_DECL QpErrorCause QueuePair::error_cause() const noexcept {
  if (!core_) return QpErrorCause::none;
  return core_->with_engine([&](engine::Engine& engine, Time) {
    const auto* qp = engine.find_qp(qpn_);
    return qp == nullptr ? QpErrorCause::none : qp->cause;
  });
}
MRC_DECL QpStats QueuePair::stats() const {
  if (!core_) return {};
  return core_->with_engine([&](engine::Engine& engine, Time) {
    const auto* qp = engine.find_qp(qpn_);
    return qp == nullptr ? QpStats{} : engine.qp_stats(*qp);
  });
}
MRC_DECL Errc QueuePair::close() noexcept {
  if (!core_) return Errc::not_found;
  const Errc e = core_->close_qp(qpn_);
  core_.reset();
  return e;
}
MRC_DECL QueuePair::~QueuePair() {
  (void)close();
}

// --- Device -------------------------------------------------------------------------------------

MRC_DECL Device::Device(const Config& config)
    : core_(std::make_shared<detail::DeviceCore>(config)) {}

MRC_DECL PdId Device::default_pd() const noexcept {
  return core_->default_pd();
}

MRC_DECL PdId Device::alloc_pd() {
  const auto pd =
      core_->with_engine([](engine::Engine& engine, Time) { return engine.alloc_pd(); });
  if (!pd) throw Error(pd.error(), "protection domains: see option max_pds");
  core_->count_object(&DeviceStats::pds, 1);
  return pd.value();
}
MRC_DECL Errc Device::dealloc_pd(PdId pd) noexcept {
  if (pd == core_->default_pd()) return Errc::in_use;
  const Errc e =
      core_->with_engine([pd](engine::Engine& engine, Time) { return engine.dealloc_pd(pd); });
  if (e == Errc::ok) core_->count_object(&DeviceStats::pds, -1);
  return e;
}

MRC_DECL MemoryRegion Device::register_memory(void* address, std::size_t length, Access access,
                                              std::optional<PdId> pd) {
  const auto key = core_->with_engine([&](engine::Engine& engine, Time) {
    return engine.register_memory(address, length, access, pd.value_or(core_->default_pd()));
  });
  if (!key)
    throw Error(key.error(), "registering " + std::to_string(length) + " bytes of memory" +
                                 (key.error() == Errc::no_resources ? ": see option max_mrs" : ""));
  core_->count_object(&DeviceStats::mrs, 1);
  return MemoryRegion(core_, address, length, key.value());
}

MRC_DECL CompletionQueue Device::create_cq(std::uint32_t depth) {
  const auto cq =
      core_->with_engine([depth](engine::Engine& engine, Time) { return engine.create_cq(depth); });
  if (!cq)
    throw Error(cq.error(), "completion queue of " + std::to_string(depth) + " entries" +
                                (cq.error() == Errc::no_resources ? ": see option max_cqs" : ""));
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    (void)core_->with_engine(
        [&](engine::Engine& engine, Time) { return engine.destroy_cq(cq.value()); });
    throw Error(std::error_code(error, std::generic_category()),
                "cannot open a completion queue's event descriptor");
  }
  core_->add_cq_fd(cq.value(), fd);
  core_->count_object(&DeviceStats::cqs, 1);
  return CompletionQueue(core_, cq.value(), fd);
}

MRC_DECL QueuePair Device::create_qp(const QpOptions& options) {
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
  init.attributes = options.attributes.value_or(core_->default_attributes());
  init.signal_all = options.signal_all;
  const auto qpn =
      core_->with_engine([&](engine::Engine& engine, Time) { return engine.create_qp(init); });
  if (!qpn)
    throw Error(qpn.error(), std::string("creating a queue pair") +
                                 (qpn.error() == Errc::no_resources ? ": see option max_qps" : ""));
  return QueuePair(core_, qpn.value());
}

MRC_DECL bool Device::progress() noexcept {
  return core_->poll();
}
MRC_DECL void Device::set_faults(std::string_view schedule) {
  core_->set_faults(schedule);
}
MRC_DECL const Config& Device::config() const noexcept {
  return core_->config();
}
MRC_DECL unsigned Device::plane_count() const noexcept {
  return core_->plane_count();
}
MRC_DECL std::vector<std::string> Device::plane_names() const {
  return core_->plane_names();
}
MRC_DECL DeviceStats Device::stats() const {
  return core_->stats();
}
MRC_DECL std::vector<PathReport> Device::paths(const QueuePair& qp) const {
  if (qp.core_ != core_) return {};  // its number may be that of another queue pair here
  return core_->paths(qp.qpn());
}

}  // namespace mrc::inline v0_1
