// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/core/error.hpp"
#include "mrc/plane/packet/packet_options.hpp"

namespace mrc::inline v0_1::port {

void PacketPortOptions::check() const {
  constexpr const char* kKind = "packet port";
  PortOptions::check(kKind);
  const auto wrong = [&](const std::string& what) {
    throw Error(Errc::invalid_argument, std::string(kKind) + ": " + what);
  };
  if (interface.empty()) wrong("no interface is named");
  if (is_v4(local) || is_unspecified(local))
    wrong("the local address is " + format_ip(local) + ", must be an IPv6 address");
  if (udp_port == 0) reject(kKind, "udp_port", udp_port, "1 to 65535");
  if (paths.empty()) wrong("it has no paths");
  for (const PortPath& path : paths)
    if (path.port_path >= kMaxPaths)
      reject(kKind, "port_path", path.port_path, ("0 to " + std::to_string(kMaxPaths - 1)).c_str());
}

}  // namespace mrc::inline v0_1::port
