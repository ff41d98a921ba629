// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verbs_shim/abi.hpp"
#include "verbs_shim/objects/host.hpp"

/// What a device says about itself.
namespace mrc_verbs {

inline constexpr std::uint32_t kMaxQueue = 32768;  ///< most requests of a queue

[[nodiscard]] ibv_device_attr device_attributes(const Host& host);
/// With the part that is newer; fields that the device knows nothing of are 0.
[[nodiscard]] ibv_device_attr_ex device_attributes_ex(const Host& host);
/// Port 1 is the port of verbs, which is down if all planes are. MRC counts the planes as ports: 2
/// and more tell of plane `port` - 1.
[[nodiscard]] ibv_port_attr port_attributes(const Host& host, unsigned port);

}  // namespace mrc_verbs
