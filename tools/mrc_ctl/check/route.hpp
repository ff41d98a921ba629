// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/net/address.hpp"

namespace mrc::check_tool {

/// The interface by which a UdpPort's packets from an address of this host, which the interface
/// named has, leave for another one; empty if there is no route. Sends nothing. Throws mrc::Error.
[[nodiscard]] std::string way_interface(const port::LocalAddress& source,
                                        const port::IpAddress& destination);

}  // namespace mrc::check_tool
