// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"

/// At which addresses a host may be found of which one address, its GID, is known.
namespace mrc::inline v0_1::detail {

/// An own plane's address, and the subnet that it is in.
struct OwnAddress {
  port::IpAddress ip{};
  unsigned prefix = 128;   ///< bits of the subnet, counted in the mapped form for IPv4
  std::uint16_t port = 0;  ///< UDP port of the process that is looked for, in a plane like this one
};

/// Is the address in the subnet of the own one?
[[nodiscard]] bool in_subnet(const OwnAddress& own, const port::IpAddress& ip) noexcept;

/// Addresses of the host with that GID: the GID, and those that the host has if its planes are
/// numbered as this one's are. Where this host has the same host part in two planes' subnets, so
/// has the other. And if the GID is one of this host's own, all own addresses.
///
/// Who has such an address has it from the operator, as the GID itself; so its answers count as
/// those of the GID do.
[[nodiscard]] std::vector<port::PeerAddress> likely_addresses(std::span<const OwnAddress> own,
                                                              const port::IpAddress& gid);

/// An address at which a device may be reached, and the own plane from which.
struct Contact {
  Plane plane = 0;
  port::PeerAddress address;

  /// Equal in both fields.
  friend bool operator==(const Contact&, const Contact&) = default;
};

/// All pairs of an own plane and one of the host's addresses, likeliest first: in the same subnet,
/// with the GID itself, from the plane that is this device's own GID. IPv4 and IPv6 are never
/// paired.
[[nodiscard]] std::vector<Contact> pairs_to_ask(std::span<const OwnAddress> own, Plane first,
                                                const port::IpAddress& gid,
                                                std::span<const port::PeerAddress> addresses);

/// Which other addresses devices have told of themselves, by the GID at which they were asked: the
/// owner of an address speaks for itself, and not for the others that it names. One thread.
class AddressBook {
 public:
  /// GIDs that are kept, most; then the book begins anew.
  static constexpr std::size_t kMost = 4096;

  /// The process in that slot at the GID has said where its planes are.
  void learn(const port::IpAddress& gid, std::uint8_t slot,
             std::span<const port::PeerAddress> planes);
  /// What it has said; empty if it is not known.
  [[nodiscard]] std::span<const port::PeerAddress> others(const port::IpAddress& gid,
                                                          std::uint8_t slot) const noexcept;
  /// An OpenMRC device has answered at the GID.
  [[nodiscard]] bool knows(const port::IpAddress& gid) const noexcept;

 private:
  std::map<std::pair<port::IpAddress, std::uint8_t>, std::vector<port::PeerAddress>> told_;
};

}  // namespace mrc::inline v0_1::detail
