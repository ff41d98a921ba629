// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mrc/path/usid.hpp"
#include "mrc/wire/ip.hpp"

/// IPv6 addresses of a fabric as text and back.
namespace mrc::inline v0_1::fabric {

/// A numeric IPv6 address; nothing for any other text.
[[nodiscard]] std::optional<wire::IpAddress> parse_ipv6(const std::string& text);

/// Six bytes in hexadecimal, two digits each, with ':' between them. Nothing for other texts, for
/// the all-zero address and for multicast addresses.
[[nodiscard]] std::optional<wire::MacAddress> parse_mac(std::string_view text);

/// "02:00:00:00:00:0a".
[[nodiscard]] std::string format_mac(const wire::MacAddress& mac);

/// "fd00:1::2".
[[nodiscard]] std::string format_ipv6(const wire::IpAddress& address);

/// True for a unicast address that can be reached over a router: neither multicast (ff00::/8) nor
/// link-local (fe80::/10) nor in ::/32, where ::, ::1 and the mapped IPv4 addresses are.
[[nodiscard]] constexpr bool is_routable(const wire::IpAddress& address) noexcept {
  const bool link_local = address[0] == 0xFE && (address[1] & 0xC0) == 0x80;
  return address[0] != 0xFF && !link_local && path::usid_block(address) != 0;
}

/// The upper 32 bits of a prefix such as "fcbb::/32". Nothing for any other length, or when a lower
/// bit is set.
[[nodiscard]] std::optional<std::uint32_t> parse_block(const std::string& text);

/// "fcbb::/32".
[[nodiscard]] std::string format_block(std::uint32_t block);

}  // namespace mrc::inline v0_1::fabric
