// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <net/if.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "mrc/core/unique_fd.hpp"
#include "mrc/plane/packet/packet_port.hpp"
#include "mrc/plane/packet/packet_socket.hpp"
#include "mrc/plane/packet/packet_transmit.hpp"

/// PacketPort: its interface, and the next hops of its peers.
namespace mrc::inline v0_1::port {

namespace detail {

/// The address that the next hop of a route is looked up for.
[[nodiscard]] inline const IpAddress& first_target(const PacketPort::Route& route) noexcept {
  return route.outer.empty() ? route.address.ip : route.outer.front().destination;
}

}  // namespace detail

void PacketPort::note_surroundings() {
  if (std::string note = frames_->note(); !note.empty()) notes_.push_back(std::move(note));
  if (index_ == 0) {
    notes_.push_back("there is no interface " + options_.interface +
                     ": this plane is down until "
                     "there is one");
    return;
  }
  const std::uint32_t mtu = capabilities_.max_packet + headers();
  if (options_.mtu > mtu)
    notes_.push_back("interface " + options_.interface + " has an MTU of " + std::to_string(mtu) +
                     ", the fabric one of " + std::to_string(options_.mtu) +
                     ": the smaller counts");
  if (options_.encapsulation != wire::Encapsulation::none && forwards_ipv6(options_.interface))
    notes_.push_back(
        "this host forwards IPv6: its kernel sends packets with its uSIDs back into "
        "the fabric, again and again; `sysctl -w net.ipv6.conf." +
        options_.interface + ".forwarding=0` stops that");
}

std::string PacketPort::interface_name() noexcept try {
  if (interface_.index == 0) return options_.interface;
  if (refresh(ask_, interface_)) return interface_.name;
  const Interface found = find_interface(ask_, {options_.local, options_.interface});
  return found.index != 0 && found.link ? found.name : options_.interface;
} catch (const std::exception&) {  // memory is short: next time
  return options_.interface;
}

bool PacketPort::attach_interface() noexcept {
  const std::string name = interface_name();
  const auto now = look_up_interface(ask_, name);
  interface_up_ = now.index != 0 && now.up;
  own_ = now.mac;
  const std::uint32_t largest = now.index != 0 ? now.mtu : kAbsentMtu;
  const std::uint32_t mtu = options_.mtu == 0 ? largest : std::min(largest, options_.mtu);
  capabilities_.max_packet = mtu - std::min(mtu, headers());
  if (now.index == index_) return now.index != 0;
  const bool bound = frames_->attach(now);
  index_ = bound ? now.index : 0;
  if (bound) {
    interface_.name = name;
    interface_.index = now.index;
    std::atomic_ref(known_).store(now.index);
  }
  interface_up_ = interface_up_ && bound;
  return bound;
}

void PacketPort::check_link(Time now) noexcept {
  if (now < next_link_check_) return;
  const Uncancelled checking;
  next_link_check_ = now + kLinkCheck;
  const NetlinkMonitor::News news = monitor_.read(index_);
  if (!frames_->usable(now)) index_ = 0;  // attach again
  if (news.links || (index_ == 0 && now >= next_attach_)) {
    attach_interface();
    next_attach_ = now + kAttachInterval;
  }
  refresh_due_ = refresh_due_ || news.links || news.next_hops || (stale_ && now >= next_check_);
  if (!refresh_due_ || !interface_up_ || now < next_refresh_) return;
  refresh_due_ = stale_ = false;
  next_refresh_ = now + kRefreshInterval;
  next_check_ = now + kCheckInterval;
  for (PacketPeer& peer : peers_)
    if (peer.known && !options_.next_hop) (void)refresh_next_hop(peer);
}

int PacketPort::refresh_next_hop(PacketPeer& peer) noexcept {
  const auto gateway = find_gateway(index_, peer.target);
  if (!gateway) return errno;
  peer.gateway = *gateway;
  const auto neighbour = find_neighbour(index_, peer.gateway);
  if (neighbour) {
    peer.next_hop = neighbour->mac;
    peer.resolved = true;
    stale_ = stale_ || neighbour->stale;
  }
  if (!neighbour || (neighbour->stale && peer.used))
    solicit_neighbour(index_, peer.gateway);  // netlink reports the answer
  peer.used = false;
  return 0;
}

void PacketPort::find_next_hop(PacketPeer& peer) noexcept {
  if (options_.next_hop) {
    peer.next_hop = *options_.next_hop;
    peer.resolved = true;
  } else if (interface_up_) {  // else it is looked up when the link comes up
    (void)refresh_next_hop(peer);
  }
}

/// Reads only what the constructor has set, and known_: other threads may be using the port.
std::string PacketPort::await_route(const PeerRoute& to, Duration patience) const {
  const Route& route = to.as<Route>();
  std::uint32_t index = std::atomic_ref(known_).load();
  std::string interface = options_.interface;
  std::array<char, IF_NAMESIZE> name{};
  if (index != 0 && if_indextoname(index, name.data()) != nullptr)
    interface = name.data();
  else
    index = if_nametoindex(interface.c_str());
  if (options_.next_hop || index == 0) return {};
  const IpAddress& target = detail::first_target(route);
  const auto lost = [&](const std::string& why) {
    return why + "; packets to " + format_ip(route.address.ip) + " are lost until ";
  };
  const std::string by = " by interface " + interface;
  const auto gateway = find_gateway(index, target);
  if (!gateway)
    return lost("no route to " + format_ip(target) + by + " (" +
                std::generic_category().message(errno) + ")") +
           "there is one (`ip -6 route add`)";
  for (Duration waited{}; !find_neighbour(index, *gateway); waited += kLinkCheck) {
    if (waited >= patience)
      return lost("next hop " + format_ip(*gateway) + by + " does not answer") + "it does";
    if (waited == Duration{}) solicit_neighbour(index, *gateway);
    pollfd none{-1, 0, 0};
    (void)::poll(&none, 1, 1);
  }
  return {};
}

}  // namespace mrc::inline v0_1::port
