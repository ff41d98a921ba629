// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/net/address.hpp"

namespace mrc::check_tool {

/// The interface by which packets from an address of this host leave for another one, by the
/// kernel's routes and rules; empty if there is no route. Sends nothing.
[[nodiscard]] std::string route_interface(const port::IpAddress& source,
                                          const port::IpAddress& destination);

}  // namespace mrc::check_tool
