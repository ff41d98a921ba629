// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mrc::inline v0_1::port {

/// Whether to use a feature that the kernel may lack.
enum class Offload : std::uint8_t {
  off,
  on,         ///< opening the port fails without it
  automatic,  ///< used if there; its absence is one of UdpPort::notes()
};

}  // namespace mrc::inline v0_1::port
