// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/host_watch.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"

namespace mrc::ctl_tool {

HostWatch::HostWatch(const Options& o)
    : options_(o),
      fabric_(o.serve.fabric.empty() ? std::nullopt : std::optional<FabricMap>(o.serve.fabric)),
      slow_(fabric_ ? &*fabric_ : nullptr) {}

void HostWatch::find_sockets() {
  std::set<Place> there;
  for (control::SocketFile& file : control::sockets_in(folders_of(options_))) {
    if (!may_select(options_, file.name)) continue;
    const Place place{!control::is_trusted_user(file.owner), file.path};
    there.insert(place);
    auto& watch = watches_[place];
    if (watch && watch->gone()) {
      (void)control::remove_if_stale(file.path);
      watch.reset();
    }
    if (!watch) watch = std::make_unique<DeviceWatch>(options_, std::move(file));
  }
  std::erase_if(watches_, [&](const auto& entry) { return !there.contains(entry.first); });
}

std::shared_ptr<const HostSnapshot> HostWatch::snapshot() {
  const std::lock_guard lock(mutex_);
  if (!newest_ || monotonic_now() > newest_at_ + kFresh) {
    newest_ = std::make_shared<const HostSnapshot>(collect());
    newest_at_ = monotonic_now();
  }
  return newest_;
}

HostSnapshot HostWatch::collect() {
  HostSnapshot host;
  host.host = host_name();
  host.steer = options_.serve.steer;
  find_sockets();
  for (auto& [place, watch] : watches_) watch->ask();
  const Time deadline = monotonic_now() + options_.patience;
  for (auto& [place, watch] : watches_) {
    watch->wait(deadline);
    if (watch->gone() || !watch->selected()) continue;
    if (watch->forbidden()) {
      ++host.others;
      continue;
    }
    DeviceSnapshot device = watch->state();
    const bool counted = counts(options_, static_cast<::uid_t>(device.uid));
    for (const Json& event : watch->take_events()) events_.add(event, device, counted);
    if (fabric_) fabric_->add_routes(device);
    host.devices.push_back(std::move(device));
  }
  const std::span<const DeviceSnapshot> counted = counting(options_, host.devices);
  // Network namespaces of a machine share its name; a fabric's description tells them apart.
  const auto differs = [&](const DeviceSnapshot& device) {
    return device.host.empty() || device.host != counted.front().host;
  };
  if (!counted.empty() && std::none_of(counted.begin(), counted.end(), differs))
    host.host = counted.front().host;
  host.time = seconds_now();
  if (fabric_) host.fabric = fabric_->name();
  slow_.take(host.time, counted);
  host.slow = slow_.found();
  host.events = events_.after(0, kEventsOfSnapshot);
  std::sort(host.devices.begin(), host.devices.end(), [](const auto& a, const auto& b) {
    return std::tie(a.program, a.pid, a.id) < std::tie(b.program, b.pid, b.id);
  });
  return host;
}

Json HostWatch::events_since(std::uint64_t since) {
  (void)snapshot();
  const std::lock_guard lock(mutex_);
  return {{"events", events_.after(since)}, {"newest", events_.newest()}};
}

void HostWatch::set_plane(const std::string& device, unsigned plane, bool enabled) {
  (void)snapshot();  // finds devices
  std::optional<control::SocketFile> file;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [place, watch] : watches_)
      if (watch->selected() && !watch->forbidden() && watch->state().id == device)
        file = watch->file();
  }
  if (!file) throw Error(Errc::not_found, "there is no such device");
  RemoteDevice remote(*file);  // not the watch's connection, which may be waiting for an answer
  remote.set_patience(options_.patience);
  if (!remote.greet(monotonic_now() + options_.patience))
    throw Error(Errc::timed_out, remote.problem());
  (void)remote.request({{"request", "plane"}, {"plane", plane}, {"enabled", enabled}});
  const std::lock_guard lock(mutex_);
  newest_.reset();
}

}  // namespace mrc::ctl_tool
