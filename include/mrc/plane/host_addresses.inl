// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>

#include "mrc/plane/host_addresses.hpp"

namespace mrc::inline v0_1::detail {

/// Takes the bits up to `prefix` from `network`, the others from `host`.
[[nodiscard]] inline port::IpAddress joined(const port::IpAddress& network,
                                            const port::IpAddress& host, unsigned prefix) noexcept {
  port::IpAddress out = host;
  for (unsigned i = 0; i < out.size() && 8 * i < prefix; ++i) {
    const unsigned bits = std::min(8u, prefix - 8 * i);
    const auto mask = static_cast<std::uint8_t>(0xFF00u >> bits);
    out[i] = static_cast<std::uint8_t>((network[i] & mask) | (host[i] & ~mask));
  }
  return out;
}

bool in_subnet(const OwnAddress& own, const port::IpAddress& ip) noexcept {
  return port::is_v4(own.ip) == port::is_v4(ip) && joined(own.ip, ip, own.prefix) == ip;
}

std::vector<port::PeerAddress> likely_addresses(std::span<const OwnAddress> own,
                                                const port::IpAddress& gid) {
  std::vector<port::PeerAddress> likely;
  const auto add = [&](const port::IpAddress& ip, std::uint16_t port) {
    const port::PeerAddress address{ip, port};
    if (std::find(likely.begin(), likely.end(), address) == likely.end()) likely.push_back(address);
  };
  for (const OwnAddress& o : own)  // planes that share an address have ports of their own
    if (port::is_v4(o.ip) == port::is_v4(gid)) add(gid, o.port);
  if (std::any_of(own.begin(), own.end(), [&](const OwnAddress& o) { return o.ip == gid; })) {
    for (const OwnAddress& o : own) add(o.ip, o.port);
    return likely;
  }
  for (const OwnAddress& near : own) {
    if (!in_subnet(near, gid)) continue;
    for (const OwnAddress& other : own) {
      const bool alike = other.prefix == near.prefix && !in_subnet(near, other.ip) &&
                         joined(near.ip, other.ip, near.prefix) == near.ip;
      if (alike) add(joined(other.ip, gid, other.prefix), other.port);
    }
  }
  return likely;
}

std::vector<Contact> pairs_to_ask(std::span<const OwnAddress> own, Plane first,
                                  const port::IpAddress& gid,
                                  std::span<const port::PeerAddress> addresses) {
  const auto rank = [&](std::size_t plane, const port::PeerAddress& to) {
    const OwnAddress& from = own[plane];
    return 8 * in_subnet(from, to.ip) + 4 * (from.port == to.udp_port) + 2 * (to.ip == gid) +
           (plane == first);
  };
  std::vector<Contact> pairs;
  for (int wanted = 15; wanted >= 0; --wanted)
    for (const port::PeerAddress& address : addresses)
      for (std::size_t i = 0; i < own.size(); ++i)
        if (port::is_v4(own[i].ip) == port::is_v4(address.ip) && rank(i, address) == wanted)
          pairs.push_back({static_cast<Plane>(i), address});
  return pairs;
}

void AddressBook::learn(const port::IpAddress& gid, std::uint8_t slot,
                        std::span<const port::PeerAddress> planes) {
  if (told_.size() >= kMost && !told_.contains({gid, slot})) told_.clear();
  std::vector<port::PeerAddress>& others = told_[{gid, slot}];
  others.clear();
  std::copy_if(planes.begin(), planes.end(), std::back_inserter(others),
               [](const port::PeerAddress& plane) { return plane.udp_port != 0; });
}

std::span<const port::PeerAddress> AddressBook::others(const port::IpAddress& gid,
                                                       std::uint8_t slot) const noexcept {
  const auto at = told_.find({gid, slot});
  if (at == told_.end()) return {};
  return at->second;
}

bool AddressBook::knows(const port::IpAddress& gid) const noexcept {
  const auto at = told_.lower_bound({gid, std::uint8_t{0}});
  return at != told_.end() && at->first.first == gid;
}

}  // namespace mrc::inline v0_1::detail
