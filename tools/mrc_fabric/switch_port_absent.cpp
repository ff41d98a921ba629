// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/switch_port.hpp"

/// SwitchPorts for a build without libbpf or clang: always absent.
namespace mrc::tools {

std::optional<SwitchPorts> SwitchPorts::open(const std::string&) {
  return std::nullopt;
}

SwitchPorts SwitchPorts::make(const std::string&, std::size_t) {
  throw Error(Errc::unsupported,
              "this mrc_fabric was built without switch ports: install libbpf-dev, pkg-config and "
              "clang, and build it again");
}

port_config SwitchPorts::config(std::size_t) const {
  return {};
}
void SwitchPorts::set_config(std::size_t, const port_config&) const {}
port_state SwitchPorts::state(std::size_t) const {
  return {};
}
void SwitchPorts::clear_state(std::size_t) const {}

}  // namespace mrc::tools
