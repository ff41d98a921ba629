// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/route.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "mrc/net/socket.hpp"

namespace mrc::check_tool {
namespace {

std::uint32_t output_interface(const std::uint8_t* answer, std::size_t size) {
  nlmsghdr head;
  if (size < sizeof head) return 0;
  std::memcpy(&head, answer, sizeof head);
  if (head.nlmsg_type != RTM_NEWROUTE || head.nlmsg_len > size) return 0;
  for (std::size_t at = NLMSG_LENGTH(sizeof(rtmsg)); at + sizeof(rtattr) <= head.nlmsg_len;) {
    rtattr attribute;
    std::memcpy(&attribute, answer + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > head.nlmsg_len) return 0;
    std::uint32_t index = 0;
    if (attribute.rta_type == RTA_OIF && attribute.rta_len == RTA_LENGTH(sizeof index)) {
      std::memcpy(&index, answer + at + RTA_LENGTH(0), sizeof index);
      return index;
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return 0;
}

}  // namespace

std::string route_interface(const port::IpAddress& source, const port::IpAddress& destination) {
  if (port::is_v4(source) != port::is_v4(destination)) return {};
  const bool v4 = port::is_v4(destination);
  const std::size_t skip = v4 ? 12 : 0, size = 16 - skip;
  nlmsghdr head{};
  head.nlmsg_type = RTM_GETROUTE;
  head.nlmsg_flags = NLM_F_REQUEST;
  rtmsg route{};
  route.rtm_family = v4 ? AF_INET : AF_INET6;
  route.rtm_dst_len = route.rtm_src_len = static_cast<unsigned char>(8 * size);
  std::array<std::uint8_t, 128> bytes{};
  std::size_t length = NLMSG_LENGTH(sizeof route);
  for (const auto& [type, ip] : {std::pair(RTA_DST, &destination), std::pair(RTA_SRC, &source)}) {
    const rtattr attribute{static_cast<unsigned short>(RTA_LENGTH(size)),
                           static_cast<unsigned short>(type)};
    std::memcpy(bytes.data() + length, &attribute, sizeof attribute);
    std::memcpy(bytes.data() + length + RTA_LENGTH(0), ip->data() + skip, size);
    length += RTA_ALIGN(attribute.rta_len);
  }
  head.nlmsg_len = static_cast<std::uint32_t>(length);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + NLMSG_HDRLEN, &route, sizeof route);
  const port::Socket socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  std::array<std::uint8_t, 4096> answer;
  if (!socket.open() || ::send(socket.fd(), bytes.data(), length, 0) < 0) return {};
  const ::ssize_t n = ::recv(socket.fd(), answer.data(), answer.size(), 0);
  char name[IF_NAMESIZE] = "";
  const std::uint32_t index =
      n > 0 ? output_interface(answer.data(), static_cast<std::size_t>(n)) : 0;
  return index != 0 && ::if_indextoname(index, name) != nullptr ? name : "";
}

}  // namespace mrc::check_tool
