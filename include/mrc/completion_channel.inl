// SPDX-License-Identifier: Apache-2.0
// CompletionChannel: a thin cover over DeviceCore.
#pragma once

#include <poll.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "mrc/core/unique_fd.hpp"
#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1 {

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

}  // namespace mrc::inline v0_1
