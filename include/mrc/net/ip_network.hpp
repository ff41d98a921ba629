// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::port {

/// A range of addresses of one IP version: a network, or a single address. A plain value.
struct Network {
  IpAddress base{};   ///< IPv4 mapped
  unsigned bits = 0;  ///< that an address must share with `base`, of 128; of IPv4 at least 96

  /// Is that address in it? IPv6 networks contain no IPv4 address.
  [[nodiscard]] constexpr bool contains(const IpAddress& ip) const noexcept {
    if (is_v4(ip) != is_v4(base)) return false;
    const std::size_t whole = bits / 8;
    for (std::size_t i = 0; i < whole; ++i)
      if (ip[i] != base[i]) return false;
    return bits % 8 == 0 || ((ip[whole] ^ base[whole]) >> (8 - bits % 8)) == 0;
  }

  /// Equal in both fields.
  friend bool operator==(const Network&, const Network&) = default;
};

/// "10.0.0.0/8", "fd00::/16", or an address, which is a network of its own. Throws Error, also if
/// bits of the address behind the prefix are set, since such a network is rarely the one meant.
[[nodiscard]] MRC_API Network parse_network(std::string_view text);

/// Networks separated by commas; none in an empty text. Throws Error.
[[nodiscard]] MRC_API std::vector<Network> parse_networks(std::string_view text);

}  // namespace mrc::inline v0_1::port
