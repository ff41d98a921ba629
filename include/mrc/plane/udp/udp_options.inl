// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/core/error.hpp"
#include "mrc/plane/udp/udp_options.hpp"

namespace mrc::inline v0_1::port {

void UdpPortOptions::check() const {
  constexpr const char* kKind = "UDP port";
  PortOptions::check(kKind);
  if (paths < 1 || paths > 4096) reject(kKind, "paths", paths, "1 to 4096");
  if (!source_ports.empty() && source_ports.size() != paths)
    reject(kKind, "number of source_ports", source_ports.size(), "none or one for each path");
  if (!flow_labels.empty() && flow_labels.size() != paths)
    reject(kKind, "number of flow_labels", flow_labels.size(), "none or one for each path");
  if (base_port < 1 || base_port + slot > 65535)
    reject(kKind, "base_port", base_port, "1 to 65535 with the slot added");
}

}  // namespace mrc::inline v0_1::port
