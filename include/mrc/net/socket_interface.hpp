// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/socket.hpp"

struct ifreq;  // <net/if.h>

/// Which network interface a local address belongs to, and its state.
namespace mrc::inline v0_1::port {

/// The interface of a local address. A plain value.
struct Interface {
  std::string name;          ///< empty if none was found
  std::uint32_t index = 0;   ///< the kernel's interface index; 0 if none was found
  std::uint32_t mtu = 1500;  ///< bytes of the largest IP packet; Ethernet's where not known
  bool running = true;       ///< up and with a carrier, or that can't be told
  /// Packets can leave by it. The loopback interface and those that only hold addresses (dummy,
  /// VRF) are no links.
  bool link = true;
};

/// Interface::link of an interface with these flags (IFF_*).
[[nodiscard]] bool is_link(unsigned flags) noexcept;

/// Reads name, MTU and state of the interface anew, by its index: names change. What can't be read
/// stays. False if there is no such interface any more, which is not running then. Three system
/// calls.
[[nodiscard]] bool refresh(const Socket& socket, Interface& interface) noexcept;

/// All IP addresses of this host, or of this network namespace. Throws Error.
[[nodiscard]] std::vector<IpAddress> local_addresses();

/// Length of the subnet's prefix of an address of this host, counted in the mapped form for IPv4
/// (10.0.0.1/24 has 120); 128 if no interface has it. Throws Error.
[[nodiscard]] unsigned prefix_length(const IpAddress& local);

/// Fills in the address of a LocalAddress that names only an interface: its first IPv4 address,
/// else its first IPv6 address that is not link-local, else the link-local one. Throws Error if
/// there is neither address nor interface, or if the interface has no address.
[[nodiscard]] LocalAddress resolve(LocalAddress local);

/// Waits, kTentative at most, while the IPv6 address of this host can't be used yet: duplicate
/// address detection takes 1 to 2 s once a link has come up. Throws Error that names the cause if
/// it is not usable then; nothing of addresses that this host does not have.
void await_address(const LocalAddress& local);
/// See await_address().
inline constexpr Duration kTentative = std::chrono::seconds{3};

/// The interface that is named, or, if there is none of that name or none is named, that has the
/// address. A loopback address that no interface lists (127.0.0.2, say) belongs to the loopback
/// interface. Throws Error.
[[nodiscard]] Interface find_interface(const Socket& socket, const LocalAddress& local);

/// Packets of the socket leave by that interface, and none that arrive by another are received:
/// Linux before 5.7 wants CAP_NET_RAW. Without it packets that arrive are not limited, and IPv6
/// routes with smaller metrics precede. Throws Error.
void leave_by(const Socket& socket, bool v4, const Interface& interface);

namespace detail {

/// An ioctl() about the interface of that name, such as SIOCGIFMTU; false on failure with errno
/// set.
[[nodiscard]] bool ask_interface(const Socket& socket, const std::string& name, unsigned long what,
                                 ifreq& request) noexcept;

/// True if the flags (the answer to SIOCGIFFLAGS) say that the interface is up and has a carrier.
[[nodiscard]] bool is_running(const ifreq& flags) noexcept;

}  // namespace detail

/// The address that packets to another one would leave from, by the kernel's routes; all zero if
/// there is no route. Sends nothing.
[[nodiscard]] IpAddress source_address(const IpAddress& destination) noexcept;

/// The address that packets to the Internet would leave from: IPv4 if there is a default route for
/// it, else IPv6, else 127.0.0.1. Sends nothing. Throws Error.
[[nodiscard]] IpAddress default_route_address();

}  // namespace mrc::inline v0_1::port
