// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::port {

/// One of a port's own paths, as an EV profile needs it.
struct PortPath {
  Ev ev;                    ///< as the receiver will see and reflect it (mrc-1.0 §3.1)
  std::uint16_t port_path;  ///< TxPacket::port_path
};

}  // namespace mrc::inline v0_1::port
