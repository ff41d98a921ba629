// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "mrc/core/unique_fd.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/net/interface.hpp"

namespace mrc::forge {

/// Sends packets that are complete from the IP header on, at a rate. Two ways: a raw socket, which
/// lets the source address be anybody's (needs CAP_NET_RAW), or an ordinary UDP socket, whose
/// source address is one of this host (needs nothing; loopback addresses are everybody's). Throws
/// std::system_error.
class Sender {
 public:
  static constexpr std::size_t kBatch = 64;

  /// `rate`: packets per second, 0: as fast as they go. `e` has the addresses; a UDP socket sets
  /// its source port if that is 0.
  Sender(bool raw, wire::Envelope& e, std::uint64_t rate) : raw_(raw), rate_(rate) {
    const bool v4 = e.is_ipv4();
    const int family = v4 ? AF_INET : AF_INET6;
    socket_ = UniqueFd(raw ? socket(family, SOCK_RAW, IPPROTO_RAW) : socket(family, SOCK_DGRAM, 0));
    if (!socket_.open()) fail(raw ? "raw socket" : "socket");
    to_ = port::SocketAddress(e.destination, raw ? std::uint16_t{0} : e.destination_port);
    if (!raw) bind_to(e, v4);
    for (auto& buffer : buffers_) buffer.reserve(2048);
  }

  /// Sends a packet, perhaps later: see flush().
  void send(Bytes packet, std::size_t envelope) {
    const Bytes part = raw_ ? packet : packet.subspan(envelope);
    buffers_[filled_].assign(part.begin(), part.end());
    if (++filled_ == kBatch || (rate_ != 0 && rate_ < 1000)) flush();
  }

  /// Sends what is left.
  void flush() {
    for (std::size_t done = 0; done < filled_;) {
      std::array<mmsghdr, kBatch> messages{};
      std::array<iovec, kBatch> vectors{};
      for (std::size_t i = done; i < filled_; ++i) {
        vectors[i] = {buffers_[i].data(), buffers_[i].size()};
        msghdr& m = messages[i].msg_hdr;
        m.msg_name = &to_.any;
        m.msg_namelen = to_.length;
        m.msg_iov = &vectors[i];
        m.msg_iovlen = 1;
      }
      const int n =
          sendmmsg(socket_.fd(), messages.data() + done, static_cast<unsigned>(filled_ - done), 0);
      if (n > 0)
        done += static_cast<std::size_t>(n);
      else if (errno == ECONNREFUSED || errno == EINTR)
        continue;  // an ICMP error of an earlier packet
      else if (errno == ENOBUFS || errno == EAGAIN)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      else
        fail("sendmmsg");
    }
    sent_ += filled_;
    filled_ = 0;
    if (rate_ != 0)
      std::this_thread::sleep_until(start_ +
                                    std::chrono::nanoseconds(sent_ * 1'000'000'000 / rate_));
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
  }
  void bind_to(wire::Envelope& e, bool v4) {
    const port::SocketAddress own(e.source, e.source_port);
    if (bind(socket_.fd(), &own.any, own.length) != 0) fail("bind");
    port::SocketAddress name;
    name.length = sizeof name.v6;
    if (getsockname(socket_.fd(), &name.any, &name.length) != 0) fail("getsockname");
    e.source_port = ntohs(v4 ? name.v4.sin_port : name.v6.sin6_port);
    const int tos = wire::make_tos(e.dscp, e.ecn);
    (void)setsockopt(socket_.fd(), v4 ? static_cast<int>(IPPROTO_IP) : IPPROTO_IPV6,
                     v4 ? static_cast<int>(IP_TOS) : IPV6_TCLASS, &tos, sizeof tos);
  }

  bool raw_;
  std::uint64_t rate_;
  std::uint64_t sent_ = 0;
  UniqueFd socket_;
  port::SocketAddress to_;
  std::array<std::vector<std::uint8_t>, kBatch> buffers_;
  std::size_t filled_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace mrc::forge
