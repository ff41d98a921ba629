// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/net/interface.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <thread>

#include "mrc/core/random.hpp"
#include "mrc/core/system.hpp"

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

NetlinkMonitor::NetlinkMonitor(Watch watch)
    : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  static_assert(alignof(nlmsghdr) <= 8);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups =
      RTMGRP_LINK | RTMGRP_IPV6_ROUTE |
      (watch == Watch::next_hops ? RTMGRP_NEIGH
                                 : RTMGRP_IPV4_ROUTE | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
  if (!socket_.open() ||
      ::bind(socket_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw_errno("cannot watch the network interfaces (netlink)");
  mrc::detail::require({mrc::detail::SystemCall::recvfrom});
}

std::unique_ptr<NetlinkMonitor> NetlinkMonitor::try_open(Watch watch) try {
  return std::make_unique<NetlinkMonitor>(watch);
} catch (const Error&) {
  return nullptr;
}

NetlinkMonitor::News NetlinkMonitor::read(std::uint32_t interface_index) noexcept {
  constexpr unsigned kReads = 64;
  News news;
  for (unsigned i = 0; i < kReads; ++i) {
    const ssize_t n = uncancelled::recv(socket_.fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ENOBUFS) news = {true, true};
    if (n <= 0 && errno != ENOBUFS) break;
    if (n > 0) look(static_cast<std::size_t>(n), interface_index, news);
  }
  return news;
}

void NetlinkMonitor::look(std::size_t size, std::uint32_t interface_index,
                          News& news) const noexcept {
  for (std::size_t at = 0; at + sizeof(nlmsghdr) <= size;) {
    nlmsghdr head;
    std::memcpy(&head, buffer_.data() + at, sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > size - at) return;
    if (head.nlmsg_type == RTM_NEWLINK || head.nlmsg_type == RTM_DELLINK) {
      news.links = true;
    } else if (head.nlmsg_type == RTM_NEWNEIGH || head.nlmsg_type == RTM_DELNEIGH) {
      ndmsg neighbour{};
      if (head.nlmsg_len >= NLMSG_LENGTH(sizeof neighbour))
        std::memcpy(&neighbour, buffer_.data() + at + NLMSG_HDRLEN, sizeof neighbour);
      news.next_hops |= neighbour.ndm_family == AF_INET6 &&
                        static_cast<std::uint32_t>(neighbour.ndm_ifindex) == interface_index;
    } else {
      news.next_hops = true;
    }
    at += NLMSG_ALIGN(head.nlmsg_len);
  }
}

bool stays_on_loopback(const IpAddress& source, const IpAddress& destination) noexcept {
  const std::size_t skip = is_v4(destination) ? 12 : 0, size = destination.size() - skip;
  rtmsg route{};
  route.rtm_family = is_v4(destination) ? AF_INET : AF_INET6;
  route.rtm_dst_len = route.rtm_src_len = static_cast<unsigned char>(8 * size);
  detail::NetlinkRequest request(RTM_GETROUTE, route);
  request.add(RTA_DST, destination.data() + skip, size);
  request.add(RTA_SRC, source.data() + skip, size);
  std::uint32_t out = 0;
  return request.send() == 0 && request.header<rtmsg>().rtm_type == RTN_LOCAL &&
         request.get(sizeof route, RTA_OIF, &out, sizeof out) && out == Way::kLoopback;
}

namespace detail {

std::uint64_t inode_of(const char* path) noexcept {
  struct stat file {};
  return ::stat(path, &file) == 0 ? file.st_ino : 0;
}

/// Tells the network namespaces of a running kernel apart; 0 if that can't be found out.
[[nodiscard]] std::uint64_t namespace_number() noexcept {
  constexpr int kNetnsCookie = 71;  // SO_NETNS_COOKIE, from Linux 5.14 on
  for (const int family : {AF_INET, AF_INET6}) {
    const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    if (socket.open() && ::getsockopt(socket.fd(), SOL_SOCKET, kNetnsCookie, &cookie, &size) == 0)
      return cookie;
  }
  return inode_of("/proc/thread-self/ns/net");
}

}  // namespace detail

std::uint64_t network_namespace() noexcept {
  constexpr std::size_t kBootId = 36;
  std::array<std::uint8_t, kBootId + sizeof(std::uint64_t)> bytes{};
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const std::uint64_t number = detail::namespace_number();
  if (number == 0 || !file.open() || ::read(file.fd(), bytes.data(), kBootId) != kBootId) return 0;
  std::memcpy(bytes.data() + kBootId, &number, sizeof number);
  return siphash(SipKey{}, bytes);
}

namespace detail {

/// Calls visit(interface index, by a router) for each next hop of a route, given its attributes.
template <class Visit>
void for_each_hop(Bytes route, Visit visit) {
  std::uint32_t index = 0;
  bool router = false;
  Bytes several;
  const auto look = [&](unsigned type, Bytes value) {
    if (type == RTA_OIF && value.size() == sizeof index)
      std::memcpy(&index, value.data(), sizeof index);
    else if (type == RTA_MULTIPATH)
      several = value;
    else
      router |= type == RTA_GATEWAY || type == RTA_VIA;
  };
  for_each_attribute(route, look);
  if (index != 0) visit(index, router);
  rtnexthop hop;
  while (several.size() >= sizeof hop) {
    std::memcpy(&hop, several.data(), sizeof hop);
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > several.size()) return;
    router = false;
    for_each_attribute(several.first(hop.rtnh_len).subspan(sizeof hop), look);
    visit(static_cast<std::uint32_t>(hop.rtnh_ifindex), router);
    several = several.subspan(std::min<std::size_t>(several.size(), RTNH_ALIGN(hop.rtnh_len)));
  }
}

/// The route itself, with all of its next hops; by the interface `index` alone if that is not 0.
[[nodiscard]] Way find_route(const IpAddress& source, const IpAddress& destination,
                             std::uint32_t index) noexcept {
  const bool v4 = is_v4(destination);
  const std::size_t skip = v4 ? 12 : 0, size = destination.size() - skip;
  // For IPv6 the interface is a mere preference where a source is given.
  const bool from = v4 || index == 0;
  rtmsg route{};
  route.rtm_family = v4 ? AF_INET : AF_INET6;
  route.rtm_dst_len = static_cast<unsigned char>(8 * size);
  route.rtm_src_len = static_cast<unsigned char>(from ? 8 * size : 0);
  // Of the table, not one that the kernel makes up: without a route by the interface that is asked
  // for, IPv4 takes the destination for a neighbour there.
  route.rtm_flags = RTM_F_FIB_MATCH;
  NetlinkRequest request(RTM_GETROUTE, route);
  request.add(RTA_DST, destination.data() + skip, size);
  if (from) request.add(RTA_SRC, source.data() + skip, size);
  if (index != 0) request.add(RTA_OIF, &index, sizeof index);
  Way way;
  const int error = request.send();
  const unsigned type = error == 0 ? request.header<rtmsg>().rtm_type : 0;
  way.none = error == 0 ? type != RTN_LOCAL && type != RTN_UNICAST
                        : error == ENETUNREACH || error == EHOSTUNREACH;
  if (type == RTN_LOCAL) way.interfaces = {Way::kLoopback};
  if (type != RTN_UNICAST) return way;
  std::size_t n = 0;
  for_each_hop(request.attributes(sizeof route), [&](std::uint32_t hop, bool) {
    if (n < Way::kMost) way.interfaces[n++] = hop;
  });
  return way;
}

}  // namespace detail

Way find_way(const Interface& own, const IpAddress& source, const IpAddress& destination) noexcept {
  Way way = detail::find_route(source, destination, 0);
  const auto& by = way.interfaces;
  if (by[0] == Way::kLoopback || !own.link || own.index == 0 || (by[0] == own.index && by[1] == 0))
    return way;
  const Way bound = detail::find_route(source, destination, own.index);
  if (std::ranges::find(bound.interfaces, own.index) == bound.interfaces.end()) return way;
  way = {};
  way.interfaces = {own.index};
  way.bound = true;
  return way;
}

std::uint32_t outgoing_mtu(const Socket& socket, const Interface& own, const IpAddress& source) {
  if (own.link || is_loopback(source)) return own.mtu;
  using Indices = std::vector<std::uint32_t>;
  Indices routed, by_default, all;
  rtmsg every{};
  every.rtm_family = is_v4(source) ? AF_INET : AF_INET6;
  constexpr std::size_t kMostRoutes = 1 << 14;
  detail::NetlinkRequest(RTM_GETROUTE, every)
      .send_for_all<rtmsg>(kMostRoutes, [&](const rtmsg& route, Bytes attributes) {
        if (route.rtm_type != RTN_UNICAST || route.rtm_table != RT_TABLE_MAIN) return;
        Indices& to = route.rtm_dst_len == 0 ? by_default : routed;
        detail::for_each_hop(attributes, [&](std::uint32_t index, bool router) {
          if (router && std::find(to.begin(), to.end(), index) == to.end()) to.push_back(index);
        });
      });
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> list(if_nameindex(),
                                                                                  if_freenameindex);
  for (const auto* entry = list.get(); entry != nullptr && entry->if_index != 0; ++entry)
    all.push_back(entry->if_index);
  for (const Indices* indices : {&routed, &by_default, &all}) {
    std::uint32_t smallest = 0;
    for (const std::uint32_t index : *indices) {
      Interface interface;
      interface.index = index;
      if (refresh(socket, interface) && interface.link && interface.running)
        smallest = smallest == 0 ? interface.mtu : std::min(smallest, interface.mtu);
    }
    if (smallest != 0) return smallest;
  }
  return own.mtu;
}

bool try_option(const Socket& socket, int level, int name, int value) noexcept {
  return setsockopt(socket.fd(), level, name, &value, sizeof value) == 0;
}

void set_option(const Socket& socket, int level, int name, int value, const char* what) {
  if (!try_option(socket, level, name, value)) throw_errno(std::string("cannot set ") + what);
}

int get_option(const Socket& socket, int level, int name, int fallback) noexcept {
  int value = fallback;
  socklen_t size = sizeof value;
  return getsockopt(socket.fd(), level, name, &value, &size) == 0 ? value : fallback;
}

std::uint64_t set_buffer(const Socket& socket, int name, int force, std::uint32_t bytes) noexcept {
  const int wanted = bytes > 0x3FFF'FFFFu ? 0x3FFF'FFFF : static_cast<int>(bytes);
  if (!try_option(socket, SOL_SOCKET, force, wanted)) {
    // The kernel caps the value without an error. A failure leaves the default, which is read back.
    (void)try_option(socket, SOL_SOCKET, name, wanted);
  }
  const int actual = get_option(socket, SOL_SOCKET, name, 0);
  return actual > 0 ? static_cast<std::uint64_t>(actual) : 0;
}

std::uint32_t receive_buffer_fill(const Socket& socket) noexcept {
  std::uint32_t memory[SK_MEMINFO_VARS] = {};
  socklen_t size = sizeof memory;
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_MEMINFO, memory, &size) != 0) return 0;
  const std::uint64_t used = memory[SK_MEMINFO_RMEM_ALLOC], all = memory[SK_MEMINFO_RCVBUF];
  return all == 0 ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(128, used * 128 / all));
}

Socket make_udp_socket(const LocalAddress& local) {
  Socket socket(::socket(is_v4(local.ip) ? AF_INET : AF_INET6,
                         SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!socket.open()) throw_errno("cannot open a UDP socket for " + format_local(local));
  if (!is_v4(local.ip)) {
    set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY");
    // NICs and packet ports send UDP checksum 0 (mrc-1.0 §1.2), which the kernel drops otherwise.
    (void)try_option(socket, SOL_UDP, UDP_NO_CHECK6_RX, 1);
  }
  if (!local.interface.empty() &&
      setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, local.interface.data(),
                 static_cast<socklen_t>(local.interface.size())) != 0)
    throw_errno("cannot bind to interface " + local.interface);
  return socket;
}

SocketAddress::SocketAddress(const IpAddress& ip, std::uint16_t port, std::uint32_t scope) noexcept
    : v6{} {
  if (is_v4(ip)) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data() + 12, 4);
    length = sizeof v4;
  } else {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = is_link_local(ip) ? scope : 0;
    std::memcpy(&v6.sin6_addr, ip.data(), 16);
    length = sizeof v6;
  }
}

SocketAddress::SocketAddress(const sockaddr* from) noexcept : v6{} {
  if (from->sa_family == AF_INET)
    std::memcpy(&v4, from, length = sizeof v4);
  else
    std::memcpy(&v6, from, length = sizeof v6);
}

PeerAddress SocketAddress::peer() const noexcept {
  const auto ip = ip_of(&any);
  return ip ? PeerAddress{*ip, port()} : PeerAddress{};
}

std::optional<IpAddress> ip_of(const sockaddr* address) noexcept {
  if (address == nullptr) return std::nullopt;
  IpAddress ip = make_v4(0, 0, 0, 0);
  if (address->sa_family == AF_INET)
    std::memcpy(ip.data() + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  else if (address->sa_family == AF_INET6)
    std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  else
    return std::nullopt;
  return ip;
}

bool try_bind(const Socket& socket, const SocketAddress& address) noexcept {
  return ::bind(socket.fd(), &address.any, address.length) == 0;
}

std::uint16_t bound_port(const Socket& socket) noexcept {
  SocketAddress address;
  address.length = sizeof address.v6;
  return getsockname(socket.fd(), &address.any, &address.length) == 0 ? address.port() : 0;
}

namespace detail {

/// Messages are small and answered: waiting to fill a segment only delays them.
[[nodiscard]] Socket prompt(Socket socket) noexcept {
  if (socket.open()) (void)try_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}
[[nodiscard]] Socket stream_socket(const SocketAddress& address) noexcept {
  return prompt(
      Socket(::socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
}
/// The socket if `done`; else none, and errno as it is.
[[nodiscard]] Socket only_if(bool done, Socket socket) noexcept {
  const int error = errno;
  if (!done) socket.close();
  errno = error;
  return socket;
}

}  // namespace detail

Socket listen_at(const SocketAddress& at) noexcept {
  Socket socket = detail::stream_socket(at);
  const bool v6 = at.any.sa_family == AF_INET6;
  // A port that was chosen may still have connections of earlier listeners, which are no obstacle.
  const bool done = socket.open() &&
                    (at.port() == 0 || try_option(socket, SOL_SOCKET, SO_REUSEADDR, 1)) &&
                    (!v6 || try_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0)) &&
                    try_bind(socket, at) && ::listen(socket.fd(), SOMAXCONN) == 0;
  return detail::only_if(done, std::move(socket));
}

Socket listen_anywhere(std::uint16_t port) noexcept {
  Socket socket = listen_at({IpAddress{}, port});
  // The port is taken, or not allowed, in both families; anything else may be a lack of IPv6.
  if (socket.open() || errno == EADDRINUSE || errno == EACCES) return socket;
  return listen_at({make_v4(0, 0, 0, 0), port});
}

Socket accept_one(const Socket& listener, SocketAddress& from) noexcept {
  from.length = sizeof from.v6;
  return detail::prompt(
      Socket(::accept4(listener.fd(), &from.any, &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC)));
}

Socket begin_connect(const SocketAddress& to) noexcept {
  Socket socket = detail::stream_socket(to);
  // An interrupted connect goes on by itself, like one in progress.
  const bool done = socket.open() && (::connect(socket.fd(), &to.any, to.length) == 0 ||
                                      errno == EINPROGRESS || errno == EINTR);
  return detail::only_if(done, std::move(socket));
}

std::optional<int> connect_result(const Socket& socket) noexcept {
  pollfd entry{socket.fd(), POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return std::nullopt;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

}  // namespace mrc::inline v0_1::port
