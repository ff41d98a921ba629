// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc/control/host_store.hpp"
#include "mrc/mrc.hpp"

namespace mrc_verbs {

/// How long another process has for its greeting, and for each answer. One that is stopped makes a
/// call take that long.
inline constexpr mrc::Duration kDevicePatience = std::chrono::seconds(5);

/// Where the control sockets of this host's devices are: beside that of this device.
[[nodiscard]] inline std::vector<std::string> device_folders(const mrc::Device& device) {
  const std::string setting = device.config().control;
  return setting == "auto" ? mrc::control::searched_folders() : std::vector<std::string>{setting};
}

/// How they are looked for.
[[nodiscard]] inline mrc::detail::HostSearch host_search(const mrc::Device& device) {
  return {device_folders(device), kDevicePatience, kDevicePatience};
}

}  // namespace mrc_verbs
