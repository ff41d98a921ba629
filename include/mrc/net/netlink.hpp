// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "mrc/net/address.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/wire/ip.hpp"

/// What is asked of the kernel over rtnetlink. By packet ports: the next hop towards an address,
/// its Ethernet address, and notice when one of these or the link changes. By UDP ports: whether
/// packets stay on this host, and notice of routes. By which interfaces packets leave: way.hpp.
namespace mrc::inline v0_1::port {

/// A netlink socket that becomes readable when a link of this network namespace changes, or what
/// else it watches. One thread at a time.
class NetlinkMonitor {
 public:
  /// What is watched besides links.
  enum class Watch : std::uint8_t {
    next_hops,  ///< neighbours, IPv6 routes
    routes,     ///< routes and addresses
  };
  /// What has changed.
  struct News {
    bool links = false;      ///< any interface: one that was removed comes back with a new index
    bool next_hops = false;  ///< what else is watched; of neighbours, those on read()'s interface
  };

  /// Throws Error.
  explicit NetlinkMonitor(Watch watch = Watch::next_hops);
  /// Null where that is not allowed.
  [[nodiscard]] static std::unique_ptr<NetlinkMonitor> try_open(Watch watch);

  /// Becomes readable when there is something to read().
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

  /// Reads the messages that are waiting, 64 at most, and returns what they are about. The caller
  /// then queries the state itself: the kernel drops messages when too many are waiting.
  [[nodiscard]] News read(std::uint32_t interface_index) noexcept;

 private:
  void look(std::size_t size, std::uint32_t interface_index, News& news) const noexcept;

  Socket socket_;
  alignas(8) std::array<std::uint8_t, 8192> buffer_{};
};

/// The neighbour to which packets for `destination` go when they leave by that interface: a
/// router, or the destination itself. Without a value there is no such route, and errno says why.
[[nodiscard]] std::optional<IpAddress> find_gateway(std::uint32_t interface_index,
                                                    const IpAddress& destination) noexcept;

/// True if packets from `source`, an address of this host, to `destination` are delivered on this
/// host over the loopback interface of its network namespace. Both are of one IP version. Sends
/// nothing.
[[nodiscard]] bool stays_on_loopback(const IpAddress& source,
                                     const IpAddress& destination) noexcept;

/// What the kernel knows of a neighbour.
struct Neighbour {
  wire::MacAddress mac{};  ///< Ethernet address
  /// The kernel has not confirmed lately that the neighbour is reachable, and has sent nothing to
  /// it since (NUD_STALE).
  bool stale = false;
};

/// A neighbour, if the kernel knows its Ethernet address.
[[nodiscard]] std::optional<Neighbour> find_neighbour(std::uint32_t interface_index,
                                                      const IpAddress& address) noexcept;

/// Makes the kernel resolve a neighbour's Ethernet address, as it does for any packet: sends an
/// empty datagram to the discard port.
void solicit_neighbour(std::uint32_t interface_index, const IpAddress& address) noexcept;

}  // namespace mrc::inline v0_1::port
