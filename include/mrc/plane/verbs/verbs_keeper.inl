// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "mrc/plane/verbs/verbs_control.hpp"
#include "mrc/plane/verbs/verbs_keeper.hpp"
#include "mrc/plane/verbs/verbs_port.hpp"

namespace mrc::inline v0_1::port {

VerbsKeeper::VerbsKeeper(VerbsPort& port)
    : port_(port),
      control_(std::make_unique<VerbsControl>(port, port.control_)),
      thread_([this] { run(); }) {}

VerbsKeeper::~VerbsKeeper() {
  stop_ = true;
  port_.look();
  thread_.join();
  close_parked();
}

void VerbsKeeper::run() {
  Time next_look = Time::min();
  Time next_work = Time::min();
  while (await(port_.enabled_ ? std::min(next_look, next_work) : next_work)) {
    Time now = monotonic_now();
    const bool up = port_.up_.load();
    const bool enabled = port_.enabled_.load();
    if (up) drain_events();
    if (up && !(enabled && healthy(now))) take_down();
    if (!enabled) {
      control_->discard();
      port_.note_silent();
      next_look = now;  // at once when it is enabled
      next_work = now + kLookUp;
      continue;
    }
    if (!port_.up_.load() && now >= next_look) bring_up();
    next_work = control_->work(now);
    now = monotonic_now();
    next_look = now + (port_.up_.load() ? kLookUp : kLookDown);
  }
}

/// Waits for VerbsPort::look(), a message, an event of the device or the time. False: the port is
/// being closed.
bool VerbsKeeper::await(Time until) noexcept {
  // Only this thread replaces the port's queues, so that it may read them without the lock.
  const VerbsQueues* queues = port_.queues_;
  std::array<pollfd, 3> fds{
      {{port_.look_.fd(), POLLIN, 0}, {port_.control_.fd(), POLLIN, 0}, {-1, POLLIN, 0}}};
  if (queues != nullptr) fds[2].fd = queues->device().context->async_fd;
  const Duration left = until - std::min(until, monotonic_now());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, kLookUp));
  (void)::poll(fds.data(), fds.size(), static_cast<int>(ms.count()));
  std::uint64_t count = 0;
  (void)!::read(port_.look_.fd(), &count, sizeof count);
  return !stop_;
}

/// Events need only be taken: what they tell is looked at anyway.
void VerbsKeeper::drain_events() noexcept {
  ibv_async_event event{};
  while (VerbsLibrary::get().get_async_event(port_.queues_->device().context.get(), &event) == 0)
    VerbsLibrary::get().ack_async_event(&event);
}

bool VerbsKeeper::healthy(Time now) noexcept {
  const VerbsDevice& device = port_.queues_->device();
  const VerbsPresence presence = look_at(device);
  if (!presence.active || presence.gid_index != device.gid_index) return false;
  {
    const std::lock_guard lock(port_.mutex_);
    if (port_.queues_->failed()) return false;
    if (port_.uc_ && port_.uc_->receive->failed()) return false;
  }
  if (now < next_list_) return true;
  next_list_ = now + kLookList;
  return verbs_device_listed(device);
}

void VerbsKeeper::take_down() noexcept {
  parked_ = port_.go_down();
  std::vector<wire::CopyId> copies;
  control_->leave_device(copies);
  parked_.queues->stop(copies);
  port_.release(copies);
}

void VerbsKeeper::bring_up() noexcept {
  if (parked_.queues && !verbs_device_listed(parked_.queues->device())) close_parked();
  if (!parked_.queues) return reopen();
  const VerbsDevice& device = parked_.queues->device();
  const VerbsPresence presence = look_at(device);
  if (!presence.active || presence.gid_index < 0) return;
  // A shared queue that has failed stays so.
  const bool sound = !parked_.uc || !parked_.uc->failed();
  if (presence.gid_index == device.gid_index && sound && parked_.queues->restart())
    return port_.come_up(std::move(parked_), false);
  close_parked();
  reopen();
}

void VerbsKeeper::close_parked() noexcept {
  if (!parked_.queues) return;
  port_.addresses_->use(nullptr);
  parked_.uc.reset();
  parked_.queues.reset();
}

void VerbsKeeper::reopen() noexcept {
  try {
    VerbsPlaneName plane = port_.options_.device;
    plane.address = port_.address_.ip;
    VerbsParts parts;
    parts.queues =
        std::make_unique<VerbsQueues>(port_.options_, open_verbs_device(plane), port_.qkey_);
    if (port_.uc_) parts.uc = std::make_unique<VerbsUcReceive>(*parts.queues);
    port_.addresses_->use(parts.queues.get());
    port_.come_up(std::move(parts), true);
  } catch (const std::exception&) {  // not there yet: tried again
  }
}

}  // namespace mrc::inline v0_1::port
