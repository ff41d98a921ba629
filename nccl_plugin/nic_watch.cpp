// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/nic_watch.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace mrc_nccl {

namespace {
constexpr std::uint32_t kEvents = 8192;
// Fewer paths than these come and go without a line.
constexpr int kMany = 4;
// One line for a failure that many paths notice one after the other.
constexpr mrc::Duration kSettle = std::chrono::milliseconds(500);
}  // namespace

NicWatch::NicWatch(std::shared_ptr<Nic> nic)
    : nic_(std::move(nic)),
      paths_(nic_->device().create_ev_event_stream(kEvents)),
      planes_(nic_->device().plane_count()) {}

void NicWatch::report(const Log& log) noexcept {
  try {
    report_planes(log);
    report_paths(log);
  } catch (...) {  // no memory for a line
  }
}

void NicWatch::report_planes(const Log& log) {
  mrc::DeviceEvent event;
  while (nic_->device().poll_event(event)) {
    const std::string plane = nic_->facts().name + ": " + nic_->plane_text(event.plane);
    if (event.kind == mrc::DeviceEvent::Kind::plane_down)
      log.warn(plane + " is down; the other planes carry its traffic");
    else if (event.kind == mrc::DeviceEvent::Kind::plane_up)
      log.warn(plane + " is up again");
  }
}

void NicWatch::report_paths(const Log& log) {
  const mrc::Time now = mrc::monotonic_now();
  std::array<mrc::EvEvent, 64> events;
  std::size_t taken;
  do {
    taken = paths_.poll(events);
    for (std::size_t i = 0; i < taken; ++i) note(events[i], now);
  } while (taken == events.size());
  for (std::size_t p = 0; p < planes_.size(); ++p) {
    PlanePaths& paths = planes_[p];
    if (now - paths.changed < kSettle) continue;
    // A peer that is gone says nothing about its plane.
    std::erase_if(paths.bad, [this](const auto& path) { return !nic_->connected_to(path.first); });
    const auto bad = static_cast<int>(paths.bad.size());
    if (bad == 0 ? paths.told == 0 : std::abs(bad - paths.told) < kMany) continue;
    const std::string plane =
        nic_->facts().name + ": " + nic_->plane_text(static_cast<mrc::Plane>(p));
    log.warn(bad == 0 ? plane + ": all paths work again"
                      : plane + ": " + std::to_string(bad) +
                            " paths do not work; traffic goes over the others");
    paths.told = bad;
  }
}

void NicWatch::note(const mrc::EvEvent& event, mrc::Time now) {
  if (event.plane >= planes_.size()) return;
  if (event.drop_count > 0)  // whatever these said
    for (PlanePaths& paths : planes_) paths.bad.clear();
  PlanePaths& paths = planes_[event.plane];
  const std::pair path{event.destination, event.entropy};
  if (event.state == mrc::EvState::assumed_bad)
    paths.bad.insert(path);
  else
    paths.bad.erase(path);
  paths.changed = now;
}

}  // namespace mrc_nccl
