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

MRC_SETUP std::vector<EndpointResponse> Lane::request_endpoints(
    EndpointOperation operation, std::span<const EndpointRequest> requests, Duration timeout,
    std::uint8_t dscp) {
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
MRC_SETUP bool Lane::await_responses(EndpointRequests::Batch& batch, Time end) {
  const Time now = monotonic_now();
  (void)rounds_.advance(now);
  endpoint_requests_.work(now, batch);
  progress_.deadline_changed();
  if (!config_.helper) (void)rounds_.arm();
  return !batch.done() && now < end;
}

/// Between two rounds. The helper receives meanwhile, if there is one.
MRC_SETUP void Lane::nap(Time end) const noexcept {
  const Time until = std::min(end, monotonic_now() + kResponseLook);
  std::array<pollfd, Progress::kMaxFds> fds;
  const std::size_t n = config_.helper ? 0 : progress_.watch(fds.data());
  Progress::sleep({fds.data(), n}, until);
}

}  // namespace mrc::inline v0_1::detail
