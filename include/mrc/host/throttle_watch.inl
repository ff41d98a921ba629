// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <fstream>
#include <utility>

#include "mrc/host/throttle_watch.hpp"

namespace mrc::inline v0_1::detail {

/// What the kernel has counted of a group; nothing if it has no such file.
[[nodiscard]] std::optional<ThrottleWatch::Throttled> read_throttled(
    const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.stat");
  std::optional<ThrottleWatch::Throttled> result;
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (!result) result = ThrottleWatch::Throttled{group, 0, {}};
    if (name == "nr_throttled") result->times = value;
    if (name == "throttled_usec") result->time = std::chrono::microseconds(value);
    if (name == "throttled_time") result->time = Duration(value);
  }
  return result;
}

ThrottleWatch::ThrottleWatch(const std::filesystem::path& groups,
                             const std::filesystem::path& own) {
  std::ifstream file(own);
  // NUMBER:CONTROLLERS:PATH; version 2 has no controllers, and is mounted at the root, or, beside
  // version 1, has no quotas.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    std::filesystem::path mount = groups;
    if (controllers.find(",cpu,") != std::string::npos)
      mount /= "cpu";
    else if (controllers != ",,")
      continue;
    // In a container the path may be that of the host, where only its end, or nothing, exists.
    std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (;; path = path.parent_path()) {
      if (auto counted = read_throttled(path.empty() ? mount : mount / path))
        before_.push_back(*std::move(counted));
      if (path.empty()) break;
    }
  }
}

std::optional<ThrottleWatch::Throttled> ThrottleWatch::look() const {
  for (const Throttled& before : before_) {
    auto now = read_throttled(before.group);
    if (!now || now->times <= before.times) continue;
    now->times -= before.times;
    now->time -= before.time;
    return now;
  }
  return std::nullopt;
}

bool ThrottleWatch::first_to_tell() noexcept {
  static std::atomic<bool> told = false;
  return !told.exchange(true);
}

}  // namespace mrc::inline v0_1::detail
