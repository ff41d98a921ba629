// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
// After <netinet/in.h>: then it does not define the same structures again.
#include <linux/in6.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "mrc/net/socket.hpp"
#include "mrc/plane/udp/udp_path.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Linux lets a process send with an IPv6 flow label only after it has leased the label. The lease
/// is shared (other processes can have the same label), needs no privilege and ends with the
/// socket. False on refusal, with errno set.
[[nodiscard]] bool lease_flow_label(const Socket& socket, const IpAddress& any_unicast,
                                    std::uint16_t label) noexcept {
  in6_flowlabel_req request{};
  request.flr_label = htonl(label);
  request.flr_action = IPV6_FL_A_GET;
  request.flr_share = IPV6_FL_S_ANY;
  request.flr_flags = IPV6_FL_F_CREATE;
  std::memcpy(&request.flr_dst, any_unicast.data(), 16);
  return setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request, sizeof request) == 0 &&
         try_option(socket, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
}

/// While it lives, the socket may have its address and UDP port together with others that may.
class AddressShare {
 public:
  explicit AddressShare(const Socket& socket) : socket_(socket) {
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  }
  AddressShare(const AddressShare&) = delete;
  AddressShare& operator=(const AddressShare&) = delete;
  ~AddressShare() { (void)try_option(socket_, SOL_SOCKET, SO_REUSEADDR, 0); }

 private:
  const Socket& socket_;
};

/// The label of a path for which none is configured: spread over 1 .. 65535, the same at every
/// start.
[[nodiscard]] constexpr std::uint16_t default_flow_label(std::uint16_t source_port) noexcept {
  const std::uint32_t mixed = (source_port * 0x9E3779B1u) >> 16;
  return static_cast<std::uint16_t>(mixed == 0 ? 1 : mixed);
}

/// Makes the socket of a path, which is yet to be bound to its source port. Throws Error.
[[nodiscard]] Socket make_sender(const UdpPortOptions& options, const LocalAddress& local) {
  Socket socket = make_udp_socket(local);
  // Never fragment, and ignore path MTUs learnt from ICMP: MRC packets are sized by
  // configuration, and the canonical IPv4 header of the iCRC has DF set.
  if (is_v4(local.ip)) {
    set_option(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE, "IP_MTU_DISCOVER");
    set_option(socket, IPPROTO_IP, IP_TOS, usual_tos(options), "IP_TOS");
  } else {
    set_option(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE, "IPV6_MTU_DISCOVER");
    set_option(socket, IPPROTO_IPV6, IPV6_TCLASS, usual_tos(options), "IPV6_TCLASS");
    // No automatic flow labels: they would change the path that a packet takes.
    (void)try_option(socket, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
  }
  set_buffer(socket, SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
  // Never read: a minimal buffer bounds the memory that stray packets take.
  (void)try_option(socket, SOL_SOCKET, SO_RCVBUF, 0);
  return socket;
}

void bind_sender(const Socket& socket, const LocalAddress& local, std::uint32_t interface_index,
                 std::uint16_t source_port) {
  if (!try_bind(socket, SocketAddress(local.ip, source_port, interface_index)))
    throw_errno("cannot send from " + format_local(local, source_port));
}

/// Opens the socket of one path. Throws Error.
[[nodiscard]] UdpPath open_path(const UdpPortOptions& options, const LocalAddress& local,
                                std::uint32_t interface_index, std::uint16_t source_port) {
  UdpPath path;
  path.socket = make_sender(options, local);
  bind_sender(path.socket, local, interface_index, source_port);
  path.source_port = bound_port(path.socket);
  return path;
}

}  // namespace detail

std::vector<UdpPath> open_paths(const UdpPortOptions& options, const LocalAddress& local,
                                std::uint32_t interface_index, std::vector<std::string>& notes) {
  std::vector<UdpPath> paths;
  paths.reserve(options.paths);
  for (std::size_t i = 0; i < options.paths; ++i) {
    const std::uint16_t wanted = options.source_ports.empty() ? std::uint16_t{0}  //
                                                              : options.source_ports[i];
    paths.push_back(detail::open_path(options, local, interface_index, wanted));
  }
  const bool labels = !is_v4(local.ip) && options.ev_format != wire::EvFormat::udp;
  for (std::size_t i = 0; labels && i < paths.size(); ++i) {
    UdpPath& path = paths[i];
    const std::uint16_t label = options.flow_labels.empty()
                                    ? detail::default_flow_label(path.source_port)
                                    : options.flow_labels[i];
    if (label == 0 || detail::lease_flow_label(path.socket, local.ip, label)) {
      path.flow_label = label;
      continue;
    }
    notes.push_back("IPv6 flow label " + std::to_string(label) + " refused (" +
                    std::generic_category().message(errno) +
                    "): paths differ by UDP source port only");
    for (UdpPath& each : paths) each.flow_label = 0;
    break;
  }
  return paths;
}

std::vector<UdpPath> open_paths(const UdpPortOptions& options, const LocalAddress& local,
                                std::uint32_t interface_index, std::span<const UdpPath> like) {
  std::vector<UdpPath> paths;
  paths.reserve(like.size());
  for (const UdpPath& path : like) {
    paths.push_back(detail::open_path(options, local, interface_index, path.source_port));
    if (path.flow_label != 0 &&
        !detail::lease_flow_label(paths.back().socket, local.ip, path.flow_label))
      throw_errno("cannot lease an IPv6 flow label");
    paths.back().flow_label = path.flow_label;
  }
  return paths;
}

void open_bound(const UdpPortOptions& options, const LocalAddress& local,
                const Interface& interface, std::span<UdpPath> paths) try {
  for (UdpPath& path : paths) {
    path.bound = detail::make_sender(options, local);
    leave_by(path.bound, is_v4(local.ip), interface);
    const detail::AddressShare one(path.socket), other(path.bound);
    detail::bind_sender(path.bound, local, interface.index, path.source_port);
    if (path.flow_label != 0 && !detail::lease_flow_label(path.bound, local.ip, path.flow_label))
      throw_errno("cannot lease an IPv6 flow label");
  }
} catch (...) {
  for (UdpPath& path : paths) path.bound = {};
  throw;
}

}  // namespace mrc::inline v0_1::port
