// SPDX-License-Identifier: Apache-2.0
// Lane: requests to any host.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>

#include "mrc/host/lane.hpp"

namespace mrc::inline v0_1::detail {

/// How often a thread that waits for responses looks at them, and sends more.
inline constexpr Duration kResponseLook = std::chrono::microseconds(500);

std::vector<EndpointResponse> Lane::request_endpoints(EndpointOperation operation,
                                                      std::span<const EndpointRequest> requests,
                                                      Duration timeout, std::uint8_t dscp) {
  EndpointRequests::Batch batch = endpoint_requests_.prepare(operation, requests, dscp);
  const Time begin = monotonic_now();
  const Time end = timeout < kNever - begin ? begin + timeout : kNever;
  std::unique_lock lock(mutex_);
  endpoint_requests_.open(batch);
  try {
    while (await_responses(batch, end)) {
      lock.unlock();
      nap(end);
      lock.lock();
    }
  } catch (...) {
    endpoint_requests_.close(batch);
    throw;
  }
  endpoint_requests_.close(batch);
  return std::move(batch.responses);
}

/// One round. False: all responses are there, or the time is over.
bool Lane::await_responses(EndpointRequests::Batch& batch, Time end) {
  const Time now = monotonic_now();
  (void)rounds_.advance(now);
  endpoint_requests_.work(now, batch);
  progress_.deadline_changed();
  if (!config_.helper) (void)rounds_.arm();
  return !batch.done() && now < end;
}

/// Probes of the paths to a peer.
struct Lane::OwnProbes {
  /// Probes that are sent at once, most: some microseconds of the lane's time.
  static constexpr std::size_t kAtOnce = 16;

  PeerId peer{};
  std::vector<PathProbe> paths{};
  std::vector<std::uint16_t> firsts{};  ///< number of the first probe of each path
  std::size_t next = 0;                 ///< the path that is looked at next
  Time begin{};                         ///< when the first of the present series was due

  /// How many of the series may be sent by now: one after the other, so that each is timed alone.
  [[nodiscard]] std::size_t due(Time now) const noexcept {
    const auto looks = static_cast<std::size_t>((now - begin) / kResponseLook);
    return std::min({paths.size(), next + kAtOnce, looks + 1});
  }
  [[nodiscard]] bool waits() const noexcept {
    return next < paths.size() ||
           std::any_of(paths.begin(), paths.end(),
                       [](const PathProbe& probe) { return probe.sent > 0 && !probe.rtt; });
  }
};

/// Takes answers, and sends some of those that are due.
void Lane::work_on(OwnProbes& probes) noexcept {
  for (std::size_t i = 0; i < probes.paths.size(); ++i) {
    PathProbe& probe = probes.paths[i];
    if (probe.sent == 0 || probe.rtt) continue;
    probe.rtt = engine_.probe_rtt(probes.peer, probe.number);
    if (!probe.rtt) probe.rtt = engine_.probe_rtt(probes.peer, probes.firsts[i]);
  }
  engine::Peer* peer = engine_.find_peer(probes.peer);
  for (const std::size_t end = probes.due(monotonic_now()); probes.next < end;) {
    const std::size_t at = probes.next++;
    PathProbe& probe = probes.paths[at];
    const path::PathIndex index = probe.index;
    // Meanwhile another peer may have the number, or a profile other paths.
    if (probe.rtt || peer == nullptr || index >= peer->paths.size() ||
        peer->paths[index].ev != probe.path.ev ||
        peer->paths.health(index) == path::Health::denied || !planes_.up(probe.path.plane))
      continue;
    probe.number = engine_.probe_path(*peer, index);
    if (++probe.sent == 1) probes.firsts[at] = probe.number;
  }
}

std::vector<PathProbe> Lane::probe_paths(PeerId peer, std::size_t first, std::size_t most,
                                         std::optional<Plane> plane, Duration timeout) {
  OwnProbes probes;
  probes.peer = peer;
  std::vector<PathReport> reports = paths(peer, first, most);
  for (std::size_t i = 0; i < reports.size(); ++i)
    if (!plane || reports[i].plane == *plane)
      probes.paths.push_back(
          {std::move(reports[i]), static_cast<path::PathIndex>(first + i), 0, 0, {}});
  probes.firsts.resize(probes.paths.size());
  const Time begin = monotonic_now(), end = begin + timeout;
  probes.begin = begin;
  bool again = false;
  std::unique_lock lock(mutex_);
  while (true) {
    const Time now = monotonic_now();
    if (!again && probes.next == probes.paths.size() && now - begin >= timeout / 2) {
      again = true;
      probes.next = 0;
      probes.begin = now;
    }
    (void)rounds_.advance(now);
    work_on(probes);
    (void)rounds_.send(now);
    progress_.deadline_changed();
    if (!config_.helper) (void)rounds_.arm();
    if (now >= end || !probes.waits()) break;
    lock.unlock();
    nap(end);
    lock.lock();
  }
  return std::move(probes.paths);
}

/// Between two rounds. The helper receives meanwhile, if there is one.
void Lane::nap(Time end) const noexcept {
  const Time until = std::min(end, monotonic_now() + kResponseLook);
  std::array<pollfd, Progress::kMaxFds> fds;
  const std::size_t n = config_.helper ? 0 : progress_.watch(fds.data());
  Progress::sleep({fds.data(), n}, until);
}

}  // namespace mrc::inline v0_1::detail
