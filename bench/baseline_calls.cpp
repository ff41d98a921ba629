// SPDX-License-Identifier: Apache-2.0
// What one UDP datagram of 80 bytes costs in each form of the system calls that send and receive
// it, over the loopback and in one thread. All forms take turns, so that a slow moment of the
// machine meets all of them. Prints medians in nanoseconds as JSON; the first form of each list is
// the plainest one that carries address and DSCP.
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "baseline_util.hpp"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace {

using baseline::SteadyClock;
using baseline::UdpSocket;

constexpr std::size_t kDatagrams = 16;  ///< that a call for many asks for
constexpr int kTos = 0x2A;

void set(const UdpSocket& socket, int level, int name, int value) {
  if (setsockopt(socket.fd(), level, name, &value, sizeof value) != 0)
    baseline::fail_errno("setsockopt");
}

struct SendForm {
  std::string_view name;
  bool connected, one_piece, tos_of_socket, for_many;
};
constexpr std::array kSends{
    SendForm{"sendmmsg, address, three pieces, DSCP as control data", false, false, false, true},
    SendForm{"in one piece", false, true, false, true},
    SendForm{"DSCP of the socket", false, false, true, true},
    SendForm{"in one piece, DSCP of the socket", false, true, true, true},
    SendForm{"in one piece, DSCP of the socket, connected", true, true, true, true},
    SendForm{"sendmsg, in one piece, DSCP of the socket, connected", true, true, true, false},
};
struct ReceiveForm {
  std::string_view name;
  std::size_t datagrams;  ///< asked for; 0: by recvmsg()
  bool address, control;
};
constexpr std::array kReceives{
    ReceiveForm{"recvmmsg for 16, address, control data", kDatagrams, true, true},
    ReceiveForm{"recvmmsg for one", 1, true, true},
    ReceiveForm{"recvmsg", 0, true, true},
    ReceiveForm{"recvmsg without address", 0, false, true},
    ReceiveForm{"recvmsg without control data", 0, true, false},
};

/// Times of each form, in ns.
template <std::size_t N>
using Times = std::array<std::vector<std::int64_t>, N>;

template <class F>
std::int64_t timed(F&& call) {
  const auto start = SteadyClock::now();
  const bool good = call();
  const auto end = SteadyClock::now();
  if (!good) baseline::fail_errno("a system call");
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
}

/// Sockets of both sides, and buffers for one datagram and for many.
class Rig {
 public:
  Rig() {
    for (const UdpSocket* socket : {&by_socket_, &connected_})
      set(*socket, IPPROTO_IP, IP_TOS, kTos);
    connected_.connect_to(receiver_.address());
    set(receiver_, IPPROTO_IP, IP_RECVTOS, 1);
    set(receiver_, IPPROTO_UDP, UDP_GRO, 1);
    auto* tos = reinterpret_cast<cmsghdr*>(tos_.data());
    *tos = {CMSG_LEN(sizeof kTos), IPPROTO_IP, IP_TOS};
    std::memcpy(CMSG_DATA(tos), &kTos, sizeof kTos);
  }

  std::int64_t send(const SendForm& form) {
    mmsghdr message{};
    msghdr& m = message.msg_hdr;
    sockaddr_in to = receiver_.address();
    if (!form.connected) m.msg_name = &to, m.msg_namelen = sizeof to;
    m.msg_iov = form.one_piece ? whole_.data() : pieces_.data();
    m.msg_iovlen = form.one_piece ? whole_.size() : pieces_.size();
    if (!form.tos_of_socket) m.msg_control = tos_.data(), m.msg_controllen = tos_.size();
    const UdpSocket& from = form.connected ? connected_ : form.tos_of_socket ? by_socket_ : plain_;
    return timed([&] {
      return form.for_many ? sendmmsg(from.fd(), &message, 1, MSG_DONTWAIT) == 1
                           : sendmsg(from.fd(), &m, MSG_DONTWAIT) == 80;
    });
  }
  std::int64_t receive(const ReceiveForm& form) {
    for (std::size_t i = 0; i < std::max<std::size_t>(1, form.datagrams); ++i) {
      msghdr& m = messages_[i].msg_hdr;
      m = {};
      m.msg_iov = &vectors_[i];
      m.msg_iovlen = 1;
      vectors_[i] = {rooms_[i].data(), rooms_[i].size()};
      if (form.address) m.msg_name = &names_[i], m.msg_namelen = sizeof names_[i];
      if (form.control) m.msg_control = controls_[i].data(), m.msg_controllen = controls_[i].size();
    }
    return timed([&] {
      return form.datagrams == 0
                 ? recvmsg(receiver_.fd(), &messages_[0].msg_hdr, MSG_DONTWAIT) == 80
                 : recvmmsg(receiver_.fd(), messages_.data(), static_cast<unsigned>(form.datagrams),
                            MSG_DONTWAIT, nullptr) == 1;
    });
  }

 private:
  UdpSocket plain_{1}, by_socket_{1}, connected_{1}, receiver_{1};
  std::array<char, 80> header_{};
  std::array<iovec, 3> pieces_{iovec{header_.data(), 68}, iovec{header_.data() + 68, 8},
                               iovec{header_.data() + 76, 4}};
  std::array<iovec, 1> whole_{iovec{header_.data(), 80}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof kTos)> tos_{};
  std::array<mmsghdr, kDatagrams> messages_{};
  std::array<iovec, kDatagrams> vectors_{};
  std::array<sockaddr_in6, kDatagrams> names_{};
  alignas(cmsghdr) std::array<std::array<char, 128>, kDatagrams> controls_{};
  std::array<std::array<char, 2048>, kDatagrams> rooms_{};
};

template <std::size_t N, class Forms>
void print(std::string_view what, const Forms& forms, Times<N>& times, std::string_view end) {
  fmt::print("  \"{}\": {{", what);
  for (std::size_t i = 0; i < N; ++i) {
    const auto middle = times[i].begin() + static_cast<std::ptrdiff_t>(times[i].size() / 2);
    std::nth_element(times[i].begin(), middle, times[i].end());
    fmt::print("{}\n    \"{}\": {}", i == 0 ? "" : ",", forms[i].name, *middle);
  }
  fmt::print("\n  }}{}\n", end);
}

}  // namespace

int main(int argc, char** argv) {
  const baseline::Arguments arguments(argc, argv, {{"rounds", 20'000}});
  baseline::pin(1);
  Rig rig;
  Times<kSends.size()> sends;
  Times<kReceives.size()> receives;
  for (unsigned round = 0; round < arguments["rounds"]; ++round)
    for (std::size_t s = 0; s < kSends.size(); ++s) {
      const std::size_t r = (round + s) % kReceives.size();
      sends[s].push_back(rig.send(kSends[s]));
      receives[r].push_back(rig.receive(kReceives[r]));
    }
  fmt::print("{{\n");
  print("send_ns", kSends, sends, ",");
  print("receive_ns", kReceives, receives, "");
  fmt::print("}}\n");
}
