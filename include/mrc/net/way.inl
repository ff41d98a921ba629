// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "mrc/net/interface.hpp"
#include "mrc/net/way.hpp"

namespace mrc::inline v0_1::port {

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

[[nodiscard]] bool leads_by(const Way& way, std::uint32_t index) noexcept {
  return std::find(way.interfaces.begin(), way.interfaces.end(), index) != way.interfaces.end();
}

}  // namespace detail

Way find_way(const Interface& own, const IpAddress& source, const IpAddress& destination) noexcept {
  Way way = detail::find_route(source, destination, 0);
  const bool local = way.interfaces[0] == 1;
  if (local || !own.link || own.index == 0 ||
      (way.interfaces[0] == own.index && way.interfaces[1] == 0) ||
      !detail::leads_by(detail::find_route(source, destination, own.index), own.index))
    return way;
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

}  // namespace mrc::inline v0_1::port
