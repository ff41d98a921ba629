// SPDX-License-Identifier: Apache-2.0
// Raw-packet queue pairs: frames of an interface, and the rules by which they are chosen.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fake_nic/world.hpp"

namespace mrc::test::fake_nic {
namespace {

/// Whether bytes are those of a rule where its mask is set.
bool matches(const void* at, const void* value, const void* mask, std::size_t size) {
  const auto* bytes = static_cast<const std::uint8_t*>(at);
  for (std::size_t i = 0; i < size; ++i)
    if (((bytes[i] ^ static_cast<const std::uint8_t*>(value)[i]) &
         static_cast<const std::uint8_t*>(mask)[i]) != 0)
      return false;
  return true;
}

constexpr std::size_t kIp = 14, kUdp = kIp + 40;  // where they are in a frame

bool fits(std::span<const std::uint8_t> frame, const std::vector<std::uint8_t>& rule) {
  ibv_flow_attr attributes;
  std::memcpy(&attributes, rule.data(), sizeof attributes);
  std::size_t at = sizeof attributes;
  for (int i = 0; i < attributes.num_of_specs; ++i) {
    ibv_flow_spec spec{};
    std::memcpy(&spec.hdr, rule.data() + at, sizeof spec.hdr);
    std::memcpy(&spec, rule.data() + at, spec.hdr.size);
    at += spec.hdr.size;
    if (spec.hdr.type == IBV_FLOW_SPEC_ETH) {
      if (!matches(frame.data(), spec.eth.val.dst_mac, spec.eth.mask.dst_mac, 6) ||
          !matches(frame.data() + 12, &spec.eth.val.ether_type, &spec.eth.mask.ether_type, 2))
        return false;
    } else if (spec.hdr.type == IBV_FLOW_SPEC_IPV6) {
      ibv_flow_spec_ipv6 ip;
      std::memcpy(&ip, &spec, sizeof ip);
      if (frame.size() < kUdp || !matches(&frame[kIp + 6], &ip.val.next_hdr, &ip.mask.next_hdr, 1))
        return false;
    } else if (spec.hdr.type == IBV_FLOW_SPEC_UDP) {
      if (frame.size() < kUdp + 8 || frame[kIp + 6] != 17 ||
          !matches(&frame[kUdp + 2], &spec.tcp_udp.val.dst_port, &spec.tcp_udp.mask.dst_port, 2))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<Wire> Wire::open(const Card& card, std::uint32_t qpn) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return nullptr;
  const int on = 1;
  (void)::setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  const int bytes = 16 << 20;  // a card loses nothing because a thread of this process is late
  (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(card.spec.interface.c_str()));
  if (address.sll_ifindex == 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return nullptr;
  }
  return std::make_shared<Wire>(fd, card, qpn);
}

Wire::Wire(int fd, const Card& card, std::uint32_t qpn)
    : fd_(fd), end_(::eventfd(0, EFD_CLOEXEC)), thread_([this, &card, qpn] { run(card, qpn); }) {}

Wire::~Wire() {
  const std::uint64_t one = 1;
  (void)!::write(end_, &one, sizeof one);
  thread_.join();
  ::close(fd_);
  ::close(end_);
}

void Wire::send(const std::vector<std::uint8_t>& frame) const {
  (void)::send(fd_, frame.data(), frame.size(), MSG_DONTWAIT);
}

void Wire::run(const Card& card, std::uint32_t qpn) {
  std::vector<std::uint8_t> frame(65536);
  for (;;) {
    pollfd fds[] = {{fd_, POLLIN, 0}, {end_, POLLIN, 0}};
    (void)::poll(fds, 2, -1);
    if (fds[1].revents != 0) return;
    const ssize_t n = ::recv(fd_, frame.data(), frame.size(), MSG_DONTWAIT);
    if (n < static_cast<ssize_t>(kIp)) continue;
    const std::lock_guard lock(world().mutex);
    const auto qp = card.qps.find(qpn);
    if (qp != card.qps.end() && is_active(card, 1))
      take_frame(*qp->second, {frame.data(), static_cast<std::size_t>(n)});
  }
}

void take_frame(Qp& qp, std::span<const std::uint8_t> frame) {
  bool wanted = false;
  for (const Flow* flow : qp.flows) wanted = wanted || fits(frame, flow->rule);
  if (!wanted || qp.state != IBV_QPS_RTS) return;
  if (qp.receives.empty()) {
    ++world().counts.without_receive;
    return;
  }
  const Receive receive = qp.receives.front();
  qp.receives.pop_front();
  Completion completion;
  completion.wc.wr_id = receive.id;
  completion.wc.status = scatter(receive.sges, frame) ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
  completion.wc.opcode = IBV_WC_RECV;
  completion.wc.byte_len = static_cast<std::uint32_t>(frame.size());
  completion.wc.qp_num = qp.qp_num;
  world().complete(qp.recv_cq, completion);
}

}  // namespace mrc::test::fake_nic
