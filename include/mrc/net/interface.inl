// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "mrc/core/error.hpp"
#include "mrc/net/socket_address.hpp"
#include "mrc/net/socket_interface.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

bool ask_interface(const Socket& socket, const std::string& name, unsigned long what,
                   ifreq& request) noexcept {
  request = {};
  std::memcpy(request.ifr_name, name.data(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1));
  return ioctl(socket.fd(), what, &request) == 0;
}

bool is_running(const ifreq& flags) noexcept {
  return (flags.ifr_flags & IFF_UP) != 0 && (flags.ifr_flags & IFF_RUNNING) != 0;
}

/// Calls `visit(entry, ip)` for every address of this host until it returns true.
template <class Visit>
void for_each_address(Visit visit) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw_errno("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const auto ip = ip_of(entry->ifa_addr);
    if (ip && visit(*entry, *ip)) return;
  }
}

/// The kernel's flags (IFA_F_*) of an IPv6 address of this host; 0 if it has none, or can't be
/// told.
[[nodiscard]] unsigned address_flags(const LocalAddress& local) {
  std::ifstream file("/proc/thread-self/net/if_inet6");
  std::string ip, index, prefix, scope, flags, name;
  while (file >> ip >> index >> prefix >> scope >> flags >> name) {
    if (!local.interface.empty() && local.interface != name) continue;
    std::string own;
    for (const std::uint8_t byte : local.ip) {
      own += "0123456789abcdef"[byte >> 4];
      own += "0123456789abcdef"[byte & 15];
    }
    if (own == ip) return static_cast<unsigned>(std::stoul(flags, nullptr, 16));
  }
  return 0;
}

}  // namespace detail

bool is_link(unsigned flags) noexcept {
  return (flags & IFF_LOOPBACK) == 0 &&
         ((flags & IFF_NOARP) == 0 || (flags & IFF_POINTOPOINT) != 0);
}

bool refresh(const Socket& socket, Interface& interface) noexcept {
  if (interface.index == 0) return true;
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(interface.index);
  if (ioctl(socket.fd(), SIOCGIFNAME, &request) == 0) {
    interface.name.assign(request.ifr_name, strnlen(request.ifr_name, IFNAMSIZ));
  } else if (errno == ENODEV) {
    interface.running = false;
    return false;
  }
  if (detail::ask_interface(socket, interface.name, SIOCGIFFLAGS, request)) {
    interface.running = detail::is_running(request);
    interface.link = is_link(static_cast<unsigned>(request.ifr_flags));
  }
  if (detail::ask_interface(socket, interface.name, SIOCGIFMTU, request) && request.ifr_mtu > 0)
    interface.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  return true;
}

std::vector<IpAddress> local_addresses() {
  std::vector<IpAddress> addresses;
  detail::for_each_address([&](const ifaddrs&, const IpAddress& ip) {
    addresses.push_back(ip);
    return false;
  });
  return addresses;
}

unsigned prefix_length(const IpAddress& local) {
  unsigned length = is_v4(local) && is_loopback(local) ? 104 : 128;  // all of 127.0.0.0/8
  detail::for_each_address([&](const ifaddrs& entry, const IpAddress& ip) {
    const auto mask = ip_of(entry.ifa_netmask);
    if (ip != local || !mask) return false;
    length = is_v4(local) ? 96 : 0;
    for (std::size_t i = length / 8; i < mask->size(); ++i)
      length += static_cast<unsigned>(std::popcount((*mask)[i]));
    return true;
  });
  return length;
}

LocalAddress resolve(LocalAddress local) {
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

void await_address(const LocalAddress& local) {
  if (is_v4(local.ip)) return;
  const Time end = monotonic_now() + kTentative;
  for (unsigned flags = 0;;) {
    flags = detail::address_flags(local);
    if ((flags & IFA_F_DADFAILED) != 0)
      throw Error(std::make_error_code(std::errc::address_not_available),
                  "address " + format_local(local) +
                      " can't be used: duplicate address detection has found another host that "
                      "has it");
    if ((flags & IFA_F_TENTATIVE) == 0 || (flags & IFA_F_OPTIMISTIC) != 0) return;
    if (monotonic_now() >= end)
      throw Error(std::make_error_code(std::errc::address_not_available),
                  "address " + format_local(local) +
                      " can't be used yet: it is tentative (`ip -6 addr`) until its link has a "
                      "carrier and duplicate address detection has ended");
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

Interface find_interface(const Socket& socket, const LocalAddress& local) {
  Interface found;
  found.index = if_nametoindex(local.interface.c_str());
  if (found.index == 0) {
    detail::for_each_address([&](const ifaddrs& entry, const IpAddress& ip) {
      if (ip != local.ip && !(is_loopback(local.ip) && (entry.ifa_flags & IFF_LOOPBACK) != 0))
        return false;
      found.index = if_nametoindex(entry.ifa_name);
      return true;
    });
  }
  (void)refresh(socket, found);
  return found;
}

IpAddress source_address(const IpAddress& destination) noexcept {
  // Connecting a datagram socket makes the kernel choose the source address, and sends nothing.
  const SocketAddress to(destination, 9);
  const Socket socket(::socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress own;
  own.length = sizeof own.v6;
  if (!socket.open() || ::connect(socket.fd(), &to.any, to.length) != 0 ||
      ::getsockname(socket.fd(), &own.any, &own.length) != 0)
    return {};
  return own.peer().ip;
}

IpAddress default_route_address() {
  for (const char* outside : {"192.0.2.1", "2001:db8::1"})
    if (const IpAddress own = source_address(parse_ip(outside)); !is_unspecified(own)) return own;
  return make_v4(127, 0, 0, 1);
}

void leave_by(const Socket& socket, bool v4, const Interface& interface) {
  if (setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, interface.name.data(),
                 static_cast<socklen_t>(interface.name.size())) == 0)
    return;
  const int index = static_cast<int>(htonl(interface.index));
  if (v4)
    set_option(socket, IPPROTO_IP, IP_UNICAST_IF, index, "IP_UNICAST_IF");
  else
    set_option(socket, IPPROTO_IPV6, IPV6_UNICAST_IF, index, "IPV6_UNICAST_IF");
}

}  // namespace mrc::inline v0_1::port
