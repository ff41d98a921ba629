// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "mrc_ctl/serve/snapshot.hpp"

namespace mrc::ctl_tool {

/// The newest events of the devices of a host. Those of devices that count, and those of others,
/// are kept apart: others push out only each other's.
class KeptEvents {
 public:
  /// Of devices that count, and of others.
  static constexpr std::size_t kMost = 1024, kMostOfOthers = 128;

  /// Of a device that `counts`, or of another one.
  void add(const Json& event, const DeviceSnapshot& device, bool counts) {
    std::deque<Json>& kept = counts ? own_ : others_;
    kept.push_back(event_of(event, device, ++newest_));
    if (kept.size() > (counts ? kMost : kMostOfOthers)) kept.pop_front();
  }

  /// The number of the newest one; 0: there was none.
  [[nodiscard]] std::uint64_t newest() const { return newest_; }

  /// Those with greater numbers than `since`, oldest first; of each kind the newest `most`.
  [[nodiscard]] std::vector<Json> after(std::uint64_t since, std::size_t most = kMost) const {
    std::vector<Json> events;
    for (const std::deque<Json>* kept : {&own_, &others_})
      std::copy_if(kept->end() - static_cast<std::ptrdiff_t>(std::min(most, kept->size())),
                   kept->end(), std::back_inserter(events),
                   [since](const Json& event) { return number_of(event) > since; });
    std::sort(events.begin(), events.end(),
              [](const Json& a, const Json& b) { return number_of(a) < number_of(b); });
    return events;
  }

 private:
  static std::uint64_t number_of(const Json& event) { return event["number"].get<std::uint64_t>(); }

  std::deque<Json> own_, others_;
  std::uint64_t newest_ = 0;
};

}  // namespace mrc::ctl_tool
