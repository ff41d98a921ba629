// SPDX-License-Identifier: Apache-2.0
#include "watch.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <tuple>

#include "mrc/core/unique_fd.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/net/address.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::forge {
namespace {

using wire::Opcode;

/// Packets of one kind: source, destination, UDP port, opcode, queue pair.
using Kind =
    std::tuple<wire::IpAddress, wire::IpAddress, std::uint16_t, std::uint8_t, std::uint32_t>;
struct Seen {
  std::uint16_t source_port = 0;
  std::uint32_t psn = 0;
  std::uint64_t packets = 0, answers = 0;
};

UniqueFd listen_at(const std::string& interface) {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)));
  if (!fd.open()) throw std::system_error(errno, std::generic_category(), "packet socket");
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  const int bytes = 64 << 20;
  (void)setsockopt(fd.fd(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  if (bind(fd.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
    throw std::system_error(errno, std::generic_category(), interface);
  return fd;
}

/// Does this packet answer the request with the number `id`?
bool answers(Bytes transport, std::uint16_t id) {
  const auto& bth = wire::view_as<wire::Bth>(transport);
  if (bth.opcode() == Opcode::sack && transport.size() >= sizeof(wire::SackPacket)) {
    const auto& seth = wire::view_as<wire::SackPacket>(transport).seth;
    return seth.probe() && seth.probe_id() == id;
  }
  if (bth.opcode() == Opcode::nack && transport.size() >= sizeof(wire::NackPacket))
    return wire::is_trim(wire::view_as<wire::NackPacket>(transport).neth.reason);
  return bth.opcode() == Opcode::endpoint_response && bth.psn().value() == id;
}

/// Only the head of a packet is read, so lengths are not checked against its end.
class Watch {
 public:
  explicit Watch(std::uint16_t id) : id_(id) {}

  void take(Bytes frame) {
    if (frame.size() <= wire::kEthernetHeader) return;
    const Bytes l3 = frame.subspan(wire::kEthernetHeader);
    if (l3[0] >> 4 == 4 && l3.size() >= sizeof(wire::Ipv4)) {
      const auto& ip = wire::view_as<wire::Ipv4>(l3);
      if (ip.protocol == wire::kNextUdp)
        udp(wire::map_ipv4(ip.source), wire::map_ipv4(ip.destination), l3, ip.header_length());
    } else if (l3[0] >> 4 == 6 && l3.size() >= sizeof(wire::Ipv6)) {
      const auto& ip = wire::view_as<wire::Ipv6>(l3);
      if (ip.next_header == wire::kNextUdp) udp(ip.source, ip.destination, l3, sizeof ip);
    }
  }

  void print() const {
    for (const auto& [kind, seen] : seen_) {
      const auto& [source, destination, port, opcode, qpn] = kind;
      std::printf("%s %u %s %u 0x%02x 0x%x %u %llu %llu\n", port::format_ip(source).c_str(),
                  unsigned{seen.source_port}, port::format_ip(destination).c_str(), unsigned{port},
                  unsigned{opcode}, unsigned{qpn}, unsigned{seen.psn},
                  static_cast<unsigned long long>(seen.packets),
                  static_cast<unsigned long long>(seen.answers));
    }
  }

 private:
  void udp(const wire::IpAddress& source, const wire::IpAddress& destination, Bytes l3,
           std::size_t at) {
    if (l3.size() < at + sizeof(wire::Udp) + sizeof(wire::Bth)) return;
    const auto& udp = wire::view_as<wire::Udp>(l3.subspan(at));
    const Bytes transport = l3.subspan(at + sizeof udp);
    const auto& bth = wire::view_as<wire::Bth>(transport);
    if (!wire::is_known(bth.op)) return;
    Seen& seen = seen_[{source, destination, udp.destination_port, bth.op, value(bth.dqp())}];
    seen.source_port = udp.source_port;
    seen.psn = bth.psn().value();
    ++seen.packets;
    seen.answers += answers(transport, id_);
  }

  std::uint16_t id_;
  std::map<Kind, Seen> seen_;
};

}  // namespace

void watch(const Arguments& arguments) {
  const UniqueFd fd = listen_at(arguments.needed("dev"));
  std::printf("listening\n");
  std::fflush(stdout);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(1000 * arguments.number("seconds", 0) +
                                                            arguments.number("milliseconds", 0));
  Watch watch(static_cast<std::uint16_t>(arguments.number("id", 0xBEEF)));
  std::array<std::uint8_t, 160> head{};
  while (Clock::now() < end) {
    pollfd ready{fd.fd(), POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    for (int i = 0; i < 256; ++i) {
      const ssize_t n = recv(fd.fd(), head.data(), head.size(), MSG_DONTWAIT);
      if (n <= 0) break;
      watch.take(Bytes(head).first(static_cast<std::size_t>(n)));
    }
  }
  watch.print();
}

}  // namespace mrc::forge
