// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "mrc/control/remote_device.hpp"
#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

using Json = nlohmann::json;

using control::Found;
using control::kPatience;
using control::object_of;
using control::RemoteDevice;

/// Now, in seconds since 1970.
[[nodiscard]] double seconds_now();

/// Whether the options select the device, which has greeted.
[[nodiscard]] bool selects(const Options& o, const RemoteDevice& device);
/// The same, as far as the name of its socket tells.
[[nodiscard]] bool may_select(const Options& o, const control::SocketName& name);
/// Where the options say that there are sockets.
[[nodiscard]] std::vector<std::string> folders_of(const Options& o);
/// Those that the options select. Sockets that nobody listens on any more are removed.
[[nodiscard]] Found find_devices(const Options& o);

}  // namespace mrc::ctl_tool
