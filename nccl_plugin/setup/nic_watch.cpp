// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/nic_watch.hpp"

#include <algorithm>
#include <array>

namespace mrc_nccl {

namespace {
constexpr std::uint32_t kEvents = 64;
constexpr mrc::Duration kBetweenLooks = std::chrono::milliseconds(100);
// Looking at the paths of many peers takes one part in so many of the thread's time at most.
constexpr int kShare = 50;
}  // namespace

NicWatch::NicWatch(std::shared_ptr<Nic> nic)
    : nic_(std::move(nic)), events_(nic_->device().create_ev_event_stream(kEvents)) {
  for (const mrc::PlaneStats& plane : nic_->device().stats().planes)
    links_.push_back({.up = plane.up});
}

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
    const bool down = event.kind == mrc::DeviceEvent::Kind::plane_down;
    if ((!down && event.kind != mrc::DeviceEvent::Kind::plane_up) || event.plane >= links_.size())
      continue;
    links_[event.plane].up = !down;
    tell_link(log, event.plane);
  }
  for (std::size_t p = 0; p < links_.size(); ++p) tell_link(log, p);
}

/// Also what the budget did not allow before.
void NicWatch::tell_link(const Log& log, std::size_t plane) {
  Link& link = links_[plane];
  if (link.up == link.told_up || !link.budget.take(mrc::monotonic_now())) return;
  link.told_up = link.up;
  log.warn(nic_->facts().name + ": " + nic_->plane_text(static_cast<mrc::Plane>(plane)) +
           (link.up ? " is up again" : " is down" + down_text()));
}

/// What is left then.
std::string NicWatch::down_text() const {
  const auto up =
      std::count_if(links_.begin(), links_.end(), [](const Link& link) { return link.up; });
  if (links_.size() == 1) return ", and there is no other: traffic waits for it";
  if (up == 0) return "; no plane is left: traffic waits for one";
  return "; " + std::to_string(up) + " of " + std::to_string(links_.size()) +
         (up == 1 ? " planes is left" : " planes are left");
}

void NicWatch::report_paths(const Log& log) {
  std::array<mrc::EvEvent, kEvents> events;
  while (events_.poll(events) > 0) changed_ = true;
  changed_ |= nic_->peers().take_suspicion();
  const mrc::Time now = mrc::monotonic_now();
  if ((!changed_ && !paths_.busy()) || now < next_look_) return;
  changed_ = false;
  std::vector<PathWatch::Plane> planes;
  for (std::size_t p = 0; p < links_.size(); ++p)
    planes.push_back({nic_->plane_text(static_cast<mrc::Plane>(p)), links_[p].up});
  const std::vector<PeerPaths> peers = nic_->peers().paths(nic_->device());
  for (const std::string& line : paths_.update(now, planes, peers))
    log.warn(nic_->facts().name + ": " + line);
  const mrc::Time done = mrc::monotonic_now();
  next_look_ = done + std::max(kBetweenLooks, kShare * (done - now));
}

}  // namespace mrc_nccl
