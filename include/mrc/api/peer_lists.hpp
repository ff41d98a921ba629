// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/net/address.hpp"

/// Options that name peers by their networks: peers_allowed and peer_ports.
namespace mrc::inline v0_1 {

/// Option peers_allowed: who may connect. A plain value.
class MRC_API AllowedPeers {
 public:
  AllowedPeers() = default;
  /// The option's value: networks separated by commas; empty: everybody. Throws mrc::Error.
  explicit AllowedPeers(std::string_view text) : networks_(port::parse_networks(text)) {}

  /// No network was named: nobody is refused.
  [[nodiscard]] bool everybody() const noexcept { return networks_.empty(); }
  /// May the host with that address connect?
  [[nodiscard]] bool contains(const port::IpAddress& ip) const noexcept {
    for (const port::Network& network : networks_)
      if (network.contains(ip)) return true;
    return everybody();
  }

 private:
  std::vector<port::Network> networks_;
};

/// Option peer_ports: UDP ports of peers that are known by GID. A plain value.
class MRC_API PeerPorts {
 public:
  PeerPorts() = default;
  /// The option's value: NETWORK=PORT, separated by commas. Throws mrc::Error.
  explicit PeerPorts(std::string_view text);

  /// The port of the first network that contains the address, if there is one.
  [[nodiscard]] std::optional<std::uint16_t> find(const port::IpAddress& ip) const noexcept {
    for (const auto& [network, port] : ports_)
      if (network.contains(ip)) return port;
    return std::nullopt;
  }

 private:
  std::vector<std::pair<port::Network, std::uint16_t>> ports_;
};

namespace detail {

/// What is wrong with the value of option peers_allowed; empty: nothing.
[[nodiscard]] std::string mistake_in_peers_allowed(std::string_view text);
/// What is wrong with the value of option peer_ports; empty: nothing.
[[nodiscard]] std::string mistake_in_peer_ports(std::string_view text);

}  // namespace detail

}  // namespace mrc::inline v0_1
