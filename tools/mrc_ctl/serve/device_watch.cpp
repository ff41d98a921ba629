// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/device_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "mrc/core/error.hpp"

namespace mrc::ctl_tool {
namespace {

/// Mean round-trip time of queue pairs, by lane and peer.
using RoundTrips = std::map<std::pair<std::uint64_t, std::uint64_t>, std::pair<double, unsigned>>;

RoundTrips round_trips(RemoteDevice& device) {
  RoundTrips sums;
  for (const Json& qp :
       device.list({{"request", "queue_pairs"}}, "queue_pairs", DeviceWatch::kMostQueuePairs)) {
    const std::uint64_t rtt = count_in(object_in(qp, "stats"), "smoothed_rtt_ns");
    if (rtt == 0 || !control::has_field(qp, "peer", &Json::is_number)) continue;
    auto& [sum, count] = sums[{count_in(qp, "lane"), count_in(qp, "peer")}];
    sum += static_cast<double>(rtt);
    ++count;
  }
  return sums;
}

PeerSnapshot read_peer(RemoteDevice& device, const Json& report, std::size_t& room) {
  PeerSnapshot peer = peer_of(report);
  if (room == 0) return peer;
  const Json paths = device.list({{"request", "paths"}, {"lane", peer.lane}, {"peer", peer.number}},
                                 "paths", room);
  for (const Json& path : paths) {
    if (room == 0) break;
    --room;
    peer.paths.push_back(path_of(path));
  }
  return peer;
}

}  // namespace

DeviceSnapshot read_device(RemoteDevice& device, DeviceSnapshot now) {
  now.up = true;
  now.problem.clear();
  now.seen = seconds_now();
  const Json answer = device.request({{"request", "counters"}});
  take_counters(now, object_in(answer, "counters"));
  const RoundTrips rtts = round_trips(device);
  std::size_t room = DeviceWatch::kMostPaths;
  now.peers.clear();
  for (const Json& report : device.list({{"request", "peers"}}, "peers", DeviceWatch::kMostPeers)) {
    if (now.peers.size() >= DeviceWatch::kMostPeers) break;
    PeerSnapshot peer = read_peer(device, report, room);
    if (const auto rtt = rtts.find({peer.lane, peer.number}); rtt != rtts.end())
      peer.rtt_ns = static_cast<std::uint64_t>(rtt->second.first / rtt->second.second);
    now.peers.push_back(std::move(peer));
  }
  return now;
}

std::span<const DeviceSnapshot> counting(const Options& o, std::vector<DeviceSnapshot>& devices) {
  const auto end = std::stable_partition(
      devices.begin(), devices.end(),
      [&o](const DeviceSnapshot& d) { return counts(o, static_cast<::uid_t>(d.uid)); });
  return {devices.begin(), end};
}

DeviceWatch::DeviceWatch(const Options& o, control::SocketFile file)
    : options_(o), file_(std::move(file)), errand_([this] { collect(); }) {
  state_.id = fmt::format("{:016x}", file_.name.id);
  state_.pid = file_.name.pid;
}

void DeviceWatch::ask() {
  {
    const std::lock_guard lock(mutex_);
    patient_ = state_.up || !std::exchange(asked_, true);
  }
  try {
    (void)errand_.ask();
  } catch (const std::system_error&) {
    fail(kNoThread);
  }
}

void DeviceWatch::wait(Time deadline) {
  if (errand_.done_by(patient_ ? deadline : monotonic_now())) return;
  const std::lock_guard lock(mutex_);
  state_.up = false;
  state_.problem = "the process does not answer; it may be stopped";
}

DeviceSnapshot DeviceWatch::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::vector<Json> DeviceWatch::take_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

bool DeviceWatch::selected() const {
  const std::lock_guard lock(mutex_);
  return selected_;
}

bool DeviceWatch::forbidden() const {
  const std::lock_guard lock(mutex_);
  return forbidden_;
}

bool DeviceWatch::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void DeviceWatch::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  state_.up = false;
  state_.problem = why;
}

void DeviceWatch::connect() {
  if (!device_) {
    greeted_ = false;
    device_ = std::make_unique<RemoteDevice>(file_);
    device_->set_patience(options_.patience);
  }
  if (greeted_) return;
  const Time end = monotonic_now() + options_.patience;
  if (!device_->greet(end)) {
    const std::string why = device_->problem();
    if (monotonic_now() < end) device_.reset();  // it has spoken, and is none of ours
    throw Error(Errc::timed_out, why);
  }
  greeted_ = true;
  const std::lock_guard lock(mutex_);
  take_hello(state_, device_->hello());
  selected_ = selects(options_, *device_);
}

/// The errand: must not throw.
void DeviceWatch::collect() try {
  connect();
  if (!selected()) return;
  device_->set_patience(options_.patience, monotonic_now() + 10 * options_.patience);
  DeviceSnapshot now = read_device(*device_, state());
  read_events();
  const std::lock_guard lock(mutex_);
  state_ = std::move(now);
} catch (const Error& error) {
  fail(mrc::detail::words_of(error));
  if (error.code() == std::errc::resource_unavailable_try_again)
    fail("the process does not answer; it may be stopped");
  if (error.code() == Errc::timed_out) return;  // the connection is good for the next time
  device_.reset();
  const std::lock_guard lock(mutex_);
  forbidden_ = error.code() == std::errc::permission_denied;
  gone_ = error.code() == std::errc::connection_refused ||
          error.code() == std::errc::no_such_file_or_directory || error.code() == Errc::not_found;
} catch (const std::exception& error) {
  fail(device_ && greeted_ ? control::problem_with(*device_, error) : error.what());
  device_.reset();
}

void DeviceWatch::read_events() {
  const Json answer = device_->request({{"request", "events"}, {"since", newest_event_}});
  newest_event_ = std::max(newest_event_, count_in(answer, "newest"));
  const std::lock_guard lock(mutex_);
  for (const Json& event : list_in(answer, "events")) events_.push_back(event);
}

}  // namespace mrc::ctl_tool
