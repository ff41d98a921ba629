// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/net/netlink.hpp"
#include "mrc/net/socket_address.hpp"
#include "mrc/net/uncancelled_socket.hpp"

namespace mrc::inline v0_1::port {

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

std::optional<IpAddress> find_gateway(std::uint32_t interface_index,
                                      const IpAddress& destination) noexcept {
  rtmsg route{};
  route.rtm_family = AF_INET6;
  route.rtm_dst_len = 128;
  detail::NetlinkRequest request(RTM_GETROUTE, route);
  request.add(RTA_DST, destination.data(), destination.size());
  request.add(RTA_OIF, &interface_index, sizeof interface_index);
  if (const int error = request.send(); error != 0) {
    errno = error;
    return std::nullopt;
  }
  const std::uint8_t type = request.header<rtmsg>().rtm_type;
  std::uint32_t out = 0;
  if (type != RTN_UNICAST || !request.get(sizeof route, RTA_OIF, &out, sizeof out) ||
      out != interface_index) {
    errno = ENETUNREACH;
    return std::nullopt;
  }
  IpAddress gateway = destination;
  (void)request.get(sizeof route, RTA_GATEWAY, gateway.data(), gateway.size());
  return gateway;
}

bool stays_on_loopback(const IpAddress& source, const IpAddress& destination) noexcept {
  constexpr std::uint32_t kLoopback = 1;  // the interface's index, in every network namespace
  const std::size_t skip = is_v4(destination) ? 12 : 0, size = destination.size() - skip;
  rtmsg route{};
  route.rtm_family = is_v4(destination) ? AF_INET : AF_INET6;
  route.rtm_dst_len = route.rtm_src_len = static_cast<unsigned char>(8 * size);
  detail::NetlinkRequest request(RTM_GETROUTE, route);
  request.add(RTA_DST, destination.data() + skip, size);
  request.add(RTA_SRC, source.data() + skip, size);
  std::uint32_t out = 0;
  return request.send() == 0 && request.header<rtmsg>().rtm_type == RTN_LOCAL &&
         request.get(sizeof route, RTA_OIF, &out, sizeof out) && out == kLoopback;
}

std::optional<Neighbour> find_neighbour(std::uint32_t interface_index,
                                        const IpAddress& address) noexcept {
  ndmsg neighbour{};
  neighbour.ndm_family = AF_INET6;
  neighbour.ndm_ifindex = static_cast<int>(interface_index);
  detail::NetlinkRequest request(RTM_GETNEIGH, neighbour);
  request.add(NDA_DST, address.data(), address.size());
  if (request.send() != 0) return std::nullopt;
  constexpr unsigned kUsable =
      NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  const unsigned state = request.header<ndmsg>().ndm_state;
  Neighbour found;
  if ((state & kUsable) == 0 ||
      !request.get(sizeof neighbour, NDA_LLADDR, found.mac.data(), found.mac.size()))
    return std::nullopt;
  found.stale = (state & NUD_STALE) != 0;
  return found;
}

void solicit_neighbour(std::uint32_t interface_index, const IpAddress& address) noexcept {
  const Socket socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return;
  (void)try_option(socket, IPPROTO_IPV6, IPV6_UNICAST_IF, static_cast<int>(htonl(interface_index)));
  constexpr std::uint16_t kDiscard = 9;
  const SocketAddress to(address, kDiscard, interface_index);
  (void)::sendto(socket.fd(), nullptr, 0, 0, &to.any, to.length);
}

}  // namespace mrc::inline v0_1::port
