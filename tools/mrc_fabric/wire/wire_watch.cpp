// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/wire/wire_watch.hpp"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstring>

namespace mrc::tools {
namespace {

constexpr std::size_t kBufferSize = 1 << 16;  // upper bound of a netlink response

LinkNews news_of(const nlmsghdr& message) {
  LinkNews news;
  const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(&message));
  news.index = link->ifi_index;
  news.is_gone = message.nlmsg_type == RTM_DELLINK;
  auto left = static_cast<int>(IFLA_PAYLOAD(&message));
  for (const rtattr* a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    const auto* text = static_cast<const char*>(RTA_DATA(a));
    const std::size_t size = RTA_PAYLOAD(a);
    if (a->rta_type == IFLA_IFNAME) news.name.assign(text, strnlen(text, size));
    if (a->rta_type == IFLA_IFALIAS) news.alias.assign(text, strnlen(text, size));
  }
  return news;
}

}  // namespace

WireWatch::WireWatch()
    : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)),
      buffer_(kBufferSize) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (!socket_.open() ||
      bind(socket_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw_errno("can't watch the network interfaces (netlink)");
  constexpr int kRoom = 4 << 20;
  (void)setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVBUFFORCE, &kRoom, sizeof kRoom);
  ask_for_all();
}

void WireWatch::ask_for_all() const {
  struct {
    nlmsghdr head;
    ifinfomsg link;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = RTM_GETLINK;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.link.ifi_family = AF_UNSPEC;
  if (send(socket_.fd(), &request, sizeof request, 0) < 0)
    throw_errno("can't ask for the network interfaces");
}

std::vector<LinkNews> WireWatch::read() {
  std::vector<LinkNews> all;
  while (true) {
    const ssize_t n = recv(socket_.fd(), buffer_.data(), buffer_.size(), 0);
    if (n < 0 && errno == ENOBUFS) {
      ask_for_all();
      continue;
    }
    if (n < 0) return all;
    auto left = static_cast<std::size_t>(n);
    for (const auto* m = reinterpret_cast<const nlmsghdr*>(buffer_.data()); NLMSG_OK(m, left);
         m = NLMSG_NEXT(m, left))
      if (m->nlmsg_type == RTM_NEWLINK || m->nlmsg_type == RTM_DELLINK) all.push_back(news_of(*m));
  }
}

}  // namespace mrc::tools
