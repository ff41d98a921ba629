// SPDX-License-Identifier: Apache-2.0
// Device: profiles and EV events, thin covers over DeviceCore.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1 {

void Device::modify_format_profile(ProfileId id, const FormatProfileChange& change) {
  detail::core_of(core_).change_format_profile(id, change);
}
FormatProfileInfo Device::query_format_profile(ProfileId id) const {
  return detail::core_of(core_).profiles().with(
      [id](const detail::ProfileRegistry& profiles) { return profiles.format(id); });
}
void Device::modify_ev_profile(ProfileId id, const EvProfileChange& change) {
  detail::core_of(core_).change_ev_profile(id, change);
}
EvProfileInfo Device::query_ev_profile(ProfileId id) const {
  return detail::core_of(core_).ev_profile(id);
}
void Device::modify_cc_profile(ProfileId id, const CcProfileChange& change) {
  detail::core_of(core_).change_cc_profile(id, change);
}
CcProfileInfo Device::query_cc_profile(ProfileId id) const {
  return detail::core_of(core_).profiles().with(
      [id](const detail::ProfileRegistry& profiles) { return profiles.cc(id); });
}
ProfileLimits Device::profile_limits() const {
  return detail::core_of(core_).profiles().with(
      [](const detail::ProfileRegistry& profiles) { return profiles.limits(); });
}

std::vector<EvEntry> Device::own_evs() const {
  return detail::core_of(core_).own_ev_entries();
}

EvEventStream Device::create_ev_event_stream(std::uint32_t depth) {
  constexpr std::uint32_t kMost = 1u << 20;
  if (depth == 0 || depth > kMost)
    throw Error(Errc::invalid_argument, "the depth of an EV event stream is " +
                                            std::to_string(depth) + ", allowed are 1 to " +
                                            std::to_string(kMost));
  auto events = std::make_shared<detail::EvEventQueue>(depth);
  detail::core_of(core_).ev_events().add(events);
  return EvEventStream(std::move(events));
}

EvEventStream::EvEventStream(std::shared_ptr<detail::EvEventQueue> events)
    : events_(std::move(events)) {}
int EvEventStream::fd() const noexcept {
  return events_ ? events_->fd() : -1;
}
std::size_t EvEventStream::poll(std::span<EvEvent> out) noexcept {
  return events_ ? events_->poll(out) : 0;
}
void EvEventStream::push(const EvEvent& event) noexcept {
  if (events_) events_->push(event);
}

}  // namespace mrc::inline v0_1
