// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/devices.hpp"

#include <fmt/format.h>

#include <chrono>

namespace mrc::ctl_tool {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool selects(const Options& o, const RemoteDevice& device) {
  const Json& hello = device.hello();
  return (!o.pid || hello["pid"] == *o.pid) && (o.name.empty() || hello["program"] == o.name) &&
         device.id().starts_with(o.device);
}

bool may_select(const Options& o, const control::SocketName& name) {
  return (!o.pid || name.pid == *o.pid) && fmt::format("{:016x}", name.id).starts_with(o.device);
}

std::vector<std::string> folders_of(const Options& o) {
  return o.folder.empty() ? control::searched_folders() : std::vector<std::string>{o.folder};
}

Found find_devices(const Options& o) {
  Found found =
      control::find_devices(folders_of(o), o.patience,
                            [&o](const control::SocketName& name) { return may_select(o, name); });
  std::erase_if(found.devices, [&o](const auto& device) { return !selects(o, *device); });
  return found;
}

}  // namespace mrc::ctl_tool
