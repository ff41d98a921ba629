// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mrc/port/address.hpp"
#include "mrc/port/socket.hpp"

/// Which network interface a local address belongs to, and its state.
namespace mrc::inline v0_1::port {

/// What is known of the interface behind a local address; `name` is empty if none was found.
struct Interface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu = 1500;  ///< bytes of the largest IP packet; Ethernet's where not known
};

namespace detail {

/// ioctl() about the interface of that name; false on failure with errno set.
[[nodiscard]] inline bool ask_interface(const Socket& socket, const std::string& name,
                                        unsigned long what, ifreq& request) noexcept {
  request = {};
  std::memcpy(request.ifr_name, name.data(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1));
  return ioctl(socket.fd(), what, &request) == 0;
}

[[nodiscard]] inline bool is_running(const ifreq& flags) noexcept {
  return (flags.ifr_flags & IFF_UP) != 0 && (flags.ifr_flags & IFF_RUNNING) != 0;
}

}  // namespace detail

/// True if the interface is up and has a carrier, or if its state can't be read (then nothing
/// speaks against it). One system call; safe with any name.
[[nodiscard]] inline bool interface_running(const Socket& socket,
                                            const std::string& name) noexcept {
  ifreq request;
  if (name.empty()) return true;
  if (!detail::ask_interface(socket, name, SIOCGIFFLAGS, request)) return errno != ENODEV;
  return detail::is_running(request);
}

namespace detail {

/// The IP address of an entry of getifaddrs(); false for other families.
[[nodiscard]] inline bool address_of(const ifaddrs& entry, IpAddress& out) noexcept {
  if (entry.ifa_addr == nullptr) return false;
  if (entry.ifa_addr->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, entry.ifa_addr, sizeof v4);
    out = make_v4(0, 0, 0, 0);
    std::memcpy(out.data() + 12, &v4.sin_addr, 4);
    return true;
  }
  if (entry.ifa_addr->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, entry.ifa_addr, sizeof v6);
    std::memcpy(out.data(), &v6.sin6_addr, 16);
    return true;
  }
  return false;
}

/// Calls `visit(entry, ip)` for every address of this host until it answers true.
template <class Visit>
void for_each_address(Visit visit) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_errno("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    IpAddress ip{};
    if (address_of(*entry, ip) && visit(*entry, ip)) return;
  }
}

}  // namespace detail

/// All IP addresses of this host, or of this network namespace. Throws Error.
[[nodiscard]] inline std::vector<IpAddress> local_addresses() {
  std::vector<IpAddress> addresses;
  detail::for_each_address([&](const ifaddrs&, const IpAddress& ip) {
    addresses.push_back(ip);
    return false;
  });
  return addresses;
}

/// Fills in the address of a LocalAddress that names only an interface: its first IPv4 address,
/// else its first IPv6 address that is not link-local, else the link-local one. Throws Error if
/// there is neither address nor interface, or if the interface has no address.
[[nodiscard]] inline LocalAddress resolve(LocalAddress local) {
  if (!is_unspecified(local.ip)) return local;
  if (local.interface.empty())
    throw Error(Errc::invalid_argument,
                "a plane needs a local address or an interface: the iCRC covers the address, so "
                "the unspecified address cannot be used");
  int best = 0;  // 3: IPv4, 2: IPv6, 1: link-local
  detail::for_each_address([&](const ifaddrs& entry, const IpAddress& ip) {
    const int rank = is_v4(ip) ? 3 : is_link_local(ip) ? 1 : 2;
    if (local.interface == entry.ifa_name && rank > best) {
      best = rank;
      local.ip = ip;
    }
    return best == 3;
  });
  if (best == 0)
    throw Error(Errc::not_found,
                "interface " + local.interface + " does not exist or has no IPv4 or IPv6 address");
  return local;
}

/// The interface that holds `local`. Loopback addresses other than 127.0.0.1 are on no list, so
/// they count as the loopback interface's.
[[nodiscard]] inline Interface find_interface(const Socket& socket, const LocalAddress& local) {
  Interface found;
  found.name = local.interface;
  if (found.name.empty()) {
    detail::for_each_address([&](const ifaddrs& entry, const IpAddress& ip) {
      if (ip != local.ip && !(is_loopback(local.ip) && (entry.ifa_flags & IFF_LOOPBACK) != 0))
        return false;
      found.name = entry.ifa_name;
      return true;
    });
  }
  if (found.name.empty()) return found;
  found.index = if_nametoindex(found.name.c_str());
  ifreq request;
  if (detail::ask_interface(socket, found.name, SIOCGIFMTU, request) && request.ifr_mtu > 0)
    found.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  return found;
}

}  // namespace mrc::inline v0_1::port
