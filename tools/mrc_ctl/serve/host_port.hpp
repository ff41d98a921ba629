// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mrc::ctl_tool {

/// Where a server is.
struct HostPort {
  std::string host;  ///< a name or an address, without brackets
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// "node7:9794", "10.0.0.1:9794", "[fd00::1]:9794", "[fe80::1%eth0]:9794"; without a port (also
/// "fe80::1%eth0") `otherwise` is taken, if there is one. Nothing for any other text.
[[nodiscard]] std::optional<HostPort> parse_host_port(
    std::string_view text, std::optional<std::uint16_t> otherwise = std::nullopt);

/// As URLs have it: with brackets around an IPv6 address.
[[nodiscard]] std::string to_string(const HostPort& at);

/// A numeric IPv4 or IPv6 address.
[[nodiscard]] bool is_address(const std::string& host);

}  // namespace mrc::ctl_tool
