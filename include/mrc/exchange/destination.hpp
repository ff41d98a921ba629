// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1 {

/// A remote queue pair as verbs programs name it.
struct Destination {
  port::IpAddress gid{};  ///< an IP address of the remote device
  Qpn qpn{};              ///< its queue pair

  /// Equal in both.
  friend bool operator==(const Destination&, const Destination&) = default;
};

}  // namespace mrc::inline v0_1
