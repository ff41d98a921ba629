// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/packet/packet_socket.hpp"

namespace mrc::inline v0_1::port {

Socket open_packet_socket() {
  Socket socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.open()) return socket;
  if (errno == EPERM || errno == EACCES)
    throw_errno(
        "packet ports need the right to send raw packets: run as root, or give it to the program "
        "with `setcap cap_net_raw+ep PROGRAM`");
  throw_errno("cannot open a packet socket");
}

bool bind_packet_socket(const Socket& socket, std::uint32_t index,
                        std::uint16_t protocol) noexcept {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(index);
  return ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

InterfaceState look_up_interface(const Socket& socket, const std::string& name) noexcept {
  InterfaceState state;
  ifreq request;
  if (!detail::ask_interface(socket, name, SIOCGIFINDEX, request)) return state;
  const int index = request.ifr_ifindex;
  if (!detail::ask_interface(socket, name, SIOCGIFHWADDR, request)) return state;
  std::memcpy(state.mac.data(), request.ifr_hwaddr.sa_data, state.mac.size());
  if (!detail::ask_interface(socket, name, SIOCGIFMTU, request)) return state;
  state.mtu = static_cast<std::uint32_t>(std::max(request.ifr_mtu, 0));
  if (!detail::ask_interface(socket, name, SIOCGIFFLAGS, request)) return state;
  state.up = detail::is_running(request);
  state.index = static_cast<std::uint32_t>(index);
  return state;
}

bool forwards_ipv6(const std::string& interface) {
  char value = '0';
  const Socket file(::open(("/proc/sys/net/ipv6/conf/" + interface + "/forwarding").c_str(),
                           O_RDONLY | O_CLOEXEC));
  return file.open() && ::read(file.fd(), &value, 1) == 1 && value != '0';
}

Socket silence_udp(const IpAddress& local, std::uint16_t udp_port,
                   std::vector<std::string>& notes) {
  Socket socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  // The address may come later, with its interface.
  if (socket.open()) (void)try_option(socket, IPPROTO_IPV6, IPV6_FREEBIND, 1);
  if (socket.open() && try_option(socket, SOL_SOCKET, SO_REUSEADDR, 1) &&
      setsockopt(socket.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 &&
      try_bind(socket, SocketAddress(local, udp_port)))
    return socket;
  if (errno == EADDRINUSE) return {};
  notes.push_back("UDP port " + format_address({local, udp_port}) + " could not be reserved (" +
                  std::generic_category().message(errno) +
                  "): the kernel may answer packets with port unreachable");
  return {};
}

}  // namespace mrc::inline v0_1::port
