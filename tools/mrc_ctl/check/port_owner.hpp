// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mrc/net/address.hpp"

namespace mrc::check_tool {

/// The inode of the socket that is bound to that UDP port of that address, or of all, in the text
/// of /proc/net/udp or udp6.
[[nodiscard]] std::optional<std::uint64_t> udp_inode(std::string_view table,
                                                     const port::IpAddress& address,
                                                     std::uint16_t port);

/// Who has a UDP port that can't be bound, as far as /proc tells: "pid 4711 (mrc_perf)", or
/// "another program".
[[nodiscard]] std::string udp_owner(const port::IpAddress& address, std::uint16_t port);

}  // namespace mrc::check_tool
