// SPDX-License-Identifier: Apache-2.0
// CompletionQueue: a thin cover over DeviceCore.
#pragma once

#include <utility>

#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1 {

CompletionQueue::CompletionQueue(std::shared_ptr<detail::DeviceCore> core, CqId id, int fd)
    : core_(std::move(core)), id_(id), fd_(fd) {}

void CompletionQueue::swap(CompletionQueue& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(id_, other.id_);
  std::swap(fd_, other.fd_);
}
CompletionQueue& CompletionQueue::operator=(CompletionQueue&& other) noexcept {
  CompletionQueue taken(std::move(other));
  swap(taken);
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
  return detail::usable(core_) == Errc::ok && core_->cq_overrun(id_);
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

}  // namespace mrc::inline v0_1
