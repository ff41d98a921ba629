// SPDX-License-Identifier: Apache-2.0
// SharedReceiveQueue: a thin cover over the engine of its Lane.
#pragma once

#include <utility>

#include "mrc/api/shared_receive_queue.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/host/srq_number.hpp"

namespace mrc::inline v0_1 {

SharedReceiveQueue::SharedReceiveQueue(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane,
                                       SrqId srq)
    : core_(std::move(core)), lane_(lane), srq_(srq) {}

void SharedReceiveQueue::swap(SharedReceiveQueue& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(lane_, other.lane_);
  std::swap(srq_, other.srq_);
}
SharedReceiveQueue& SharedReceiveQueue::operator=(SharedReceiveQueue&& other) noexcept {
  SharedReceiveQueue taken(std::move(other));
  swap(taken);
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
