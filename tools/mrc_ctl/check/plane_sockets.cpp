// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/plane_sockets.hpp"

#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "mrc/net/interface.hpp"

namespace mrc::check_tool {
namespace {

constexpr std::size_t kLargestProbe = 65'507;

/// As the paths of a UdpPort: with DF set, whatever path MTU the kernel has learned.
port::Socket open_sender(const port::LocalAddress& local, std::uint32_t scope,
                         const port::Interface* leave_by = nullptr) {
  port::Socket socket = port::make_udp_socket(local);
  if (port::is_v4(local.ip))
    port::set_option(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE, "IP_MTU_DISCOVER");
  else
    port::set_option(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE,
                     "IPV6_MTU_DISCOVER");
  (void)port::try_option(socket, SOL_SOCKET, SO_RCVBUF, 0);  // never read
  if (leave_by != nullptr) port::leave_by(socket, port::is_v4(local.ip), *leave_by);
  if (!port::try_bind(socket, port::SocketAddress(local.ip, 0, scope)))
    throw_errno("cannot send from " + port::format_local(local));
  return socket;
}

}  // namespace

PlaneSockets::PlaneSockets(const port::LocalAddress& local, std::uint16_t port, unsigned paths)
    : local_(port::resolve(local)), buffer_(kLargestProbe) {
  port::await_address(local_);
  receiver_ = port::make_udp_socket(local_);
  scope_ = port::find_interface(receiver_, local_).index;
  if (!port::try_bind(receiver_, port::SocketAddress(local_.ip, port, scope_))) {
    const bool used = errno == EADDRINUSE;
    if (!used || !port::try_bind(receiver_, port::SocketAddress(local_.ip, 0, scope_)))
      throw_errno("cannot receive at " + port::format_local(local_, port) +
                  (errno == EADDRNOTAVAIL ? " (not an address of this host)" : ""));
  }
  port_ = port::bound_port(receiver_);
  (void)port::set_buffer(receiver_, SO_RCVBUF, SO_RCVBUFFORCE, 4 << 20);
  for (unsigned i = 0; i < paths; ++i) senders_.push_back(open_sender(local_, scope_));
}

port::Interface PlaneSockets::interface() {
  bound_.clear();
  asked_ = {};
  return port::find_interface(receiver_, local_);
}

bool PlaneSockets::leaves_bound(const port::IpAddress& to) {
  if (to == asked_ || !local_.interface.empty()) return leaves_bound_;
  const port::Interface own = port::find_interface(receiver_, local_);
  leaves_bound_ = port::find_way(own, local_.ip, to).bound;
  while (leaves_bound_ && bound_.size() < senders_.size())
    bound_.push_back(open_sender(local_, scope_, &own));
  asked_ = to;
  return leaves_bound_;
}

int PlaneSockets::send(const ProbeHead& head, std::size_t size, const port::PeerAddress& to,
                       unsigned path) {
  size = std::clamp(size, ProbeHead::kSize, buffer_.size());
  std::fill_n(buffer_.begin(), size, std::uint8_t{0});
  put_head(head, buffer_);
  return send(size, 0, to, path);
}

int PlaneSockets::send_piece(const ProbeHead& head, std::size_t size, std::size_t bytes,
                             const port::PeerAddress& to, unsigned path) {
  size = std::clamp(size, ProbeHead::kSize, buffer_.size());
  bytes = std::clamp(bytes, size, buffer_.size());
  std::fill_n(buffer_.begin(), bytes, std::uint8_t{0});
  for (std::size_t at = 0; at + ProbeHead::kSize <= bytes; at += size)
    put_head(head, std::span(buffer_).subspan(at));
  return send(bytes, size, to, path);
}

/// Sends what is in the buffer. `segment`: bytes of a packet of a piece; 0: it is one packet.
int PlaneSockets::send(std::size_t bytes, std::size_t segment, const port::PeerAddress& to,
                       unsigned path) {
  port::SocketAddress address(to.ip, to.udp_port, scope_);
  const port::Socket& socket = (leaves_bound(to.ip) ? bound_ : senders_)[path % senders_.size()];
  ::iovec part{buffer_.data(), bytes};
  ::msghdr message{};
  message.msg_name = &address.any;
  message.msg_namelen = address.length;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(::cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(std::uint16_t))> control{};
  if (segment != 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ::cmsghdr* const option = CMSG_FIRSTHDR(&message);
    option->cmsg_level = SOL_UDP;
    option->cmsg_type = UDP_SEGMENT;
    option->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto value = static_cast<std::uint16_t>(segment);
    std::memcpy(CMSG_DATA(option), &value, sizeof value);
  }
  for (int tries = 0;; ++tries) {
    if (::sendmsg(socket.fd(), &message, MSG_DONTWAIT) >= 0) return 0;
    // ECONNREFUSED is of an earlier packet.
    const bool full = errno == EAGAIN || errno == ENOBUFS;
    if (tries == 10 || (!full && errno != ECONNREFUSED && errno != EINTR)) return errno;
    ::pollfd entry{socket.fd(), POLLOUT, 0};
    if (full) (void)::poll(&entry, 1, 5);
  }
}

void PlaneSockets::receive(const Take& take) {
  for (int i = 0; i < 256; ++i) {
    port::SocketAddress from;
    from.length = sizeof from.v6;
    const ::ssize_t n = ::recvfrom(receiver_.fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT,
                                   &from.any, &from.length);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) continue;  // what the network says of packets that were sent before
    const std::span packet(buffer_.data(), static_cast<std::size_t>(n));
    if (const auto head = read_head(packet)) take(*head, packet.size(), from.peer());
  }
}

std::string send_error_text(int error) {
  const std::string cause = std::generic_category().message(error);
  switch (error) {
    case EMSGSIZE:
      return "the interface's MTU is too small for them";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return "there is no route (" + cause + "): `ip route get` shows what the kernel would do";
    case EPERM:
    case EACCES:
      return "a firewall of this host refuses them (" + cause + ")";
    default:
      return "the kernel does not send them: " + cause;
  }
}

}  // namespace mrc::check_tool
