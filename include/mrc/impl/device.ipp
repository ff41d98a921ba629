// SPDX-License-Identifier: Apache-2.0
// Device: a thin cover over DeviceCore.
#pragma once

#include <string>
#include <utility>

#include "mrc/device.hpp"
#include "mrc/device/core.hpp"

namespace mrc::inline v0_1 {

MRC_SETUP Device::Device(const Config& config)
    : core_(std::make_shared<detail::DeviceCore>(config)) {}

MRC_DECL PdId Device::default_pd() const noexcept {
  return core_->default_pd();
}

MRC_SETUP PdId Device::alloc_pd() {
  const auto pd =
      core_->with_engine([](engine::Engine& engine, Time) { return engine.alloc_pd(); });
  if (!pd) throw Error(pd.error(), "protection domains: see option max_pds");
  core_->count_object(&DeviceStats::pds, 1);
  return pd.value();
}
MRC_SETUP Errc Device::dealloc_pd(PdId pd) noexcept {
  if (pd == core_->default_pd()) return Errc::in_use;
  const Errc e =
      core_->with_engine([pd](engine::Engine& engine, Time) { return engine.dealloc_pd(pd); });
  if (e == Errc::ok) core_->count_object(&DeviceStats::pds, -1);
  return e;
}

MRC_SETUP MemoryRegion Device::register_memory(void* address, std::size_t length, Access access,
                                               std::optional<PdId> pd) {
  const std::uint32_t key =
      core_->register_memory(address, length, access, pd.value_or(core_->default_pd()));
  core_->count_object(&DeviceStats::mrs, 1);
  return MemoryRegion(core_, address, length, key);
}

MRC_SETUP CompletionChannel Device::create_channel() {
  return CompletionChannel(core_, core_->create_channel());
}

MRC_SETUP CompletionQueue Device::create_cq(std::uint32_t depth, const CompletionChannel* channel) {
  if (channel != nullptr && channel->core_ != core_)
    throw Error(Errc::invalid_argument, "the completion channel is empty or of another device");
  UniqueFd event = detail::DeviceCore::open_cq_fd();
  const auto cq =
      core_->with_engine([depth](engine::Engine& engine, Time) { return engine.create_cq(depth); });
  if (!cq)
    throw Error(cq.error(), "completion queue of " + std::to_string(depth) + " entries" +
                                (cq.error() == Errc::no_resources ? ": see option max_cqs" : ""));
  const int fd = event.fd();
  core_->add_cq_fd(cq.value(), std::move(event), channel ? channel->events_ : nullptr);
  core_->count_object(&DeviceStats::cqs, 1);
  return CompletionQueue(core_, cq.value(), fd);
}

MRC_SETUP QueuePair Device::create_qp(const QpOptions& options) {
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
  return core_->progress().poll();
}
MRC_SETUP void Device::set_faults(std::string_view schedule) {
  core_->set_faults(schedule);
}
MRC_DECL port::IpAddress Device::gid() const noexcept {
  return core_->gid();
}
MRC_DECL int Device::event_fd() const noexcept {
  return core_->event_fd();
}
MRC_DECL bool Device::poll_event(DeviceEvent& event) noexcept {
  return core_->poll_event(event);
}
MRC_DECL const Config& Device::config() const noexcept {
  return core_->config();
}
MRC_DECL unsigned Device::plane_count() const noexcept {
  return core_->plane_count();
}
MRC_SETUP std::vector<std::string> Device::plane_names() const {
  return core_->plane_names();
}
MRC_SETUP DeviceStats Device::stats() const {
  return core_->stats();
}
MRC_SETUP std::vector<PathReport> Device::paths(const QueuePair& qp) const {
  if (qp.core_ != core_) return {};  // its number may be that of another queue pair here
  return core_->paths(qp.qpn());
}

}  // namespace mrc::inline v0_1
