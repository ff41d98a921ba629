// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "mrc/plane/port_options.hpp"
#include "mrc/plane/verbs/verbs_device.hpp"

namespace mrc::inline v0_1::port {

/// Everything that a VerbsPort is made from. A plain value.
struct VerbsPortOptions : PortOptions {
  VerbsPlaneName device;           ///< device, port and GID
  std::uint16_t paths = 16;        ///< queue pairs to spray over, 1 .. kMaxPaths
  std::uint32_t send_depth = 128;  ///< packets of one path that wait in the device, 16 .. 4096
  /// The peers' devices place payload where they can (UC), and this one does for them.
  bool placement = true;
  /// Takes what an operator should know of and happens while the port runs, a line each. In a
  /// thread of the port's own; empty: nobody does.
  std::function<void(const std::string&)> warn;

  /// Throws Error that names the option, its value and what is allowed.
  void check() const;

  static constexpr std::uint16_t kMaxPaths = 64;  ///< upper bound of `paths`
};

}  // namespace mrc::inline v0_1::port
