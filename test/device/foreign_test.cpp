// SPDX-License-Identifier: Apache-2.0
// Peers that are another implementation of MRC, as foreign_peer() describes them.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "device_rig.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/transport.hpp"

using namespace mrc;
using namespace mrc::test;

namespace foreign_test {

ConnectionInfo as_foreign(const QueuePair& qp) {
  const ConnectionInfo info = qp.local_info();
  return foreign_peer(info.qpn, info.start_psn, info.planes);
}

/// Each takes the other for another implementation.
void connect_as_foreign(QueuePair& a, QueuePair& b) {
  const ConnectionInfo info_a = as_foreign(a), info_b = as_foreign(b);
  a.connect(info_b);
  b.connect(info_a);
}

/// What arrives at a UDP port of 127.0.0.1, with its IP header, or of ::1, without. Loopback passes
/// a GSO burst on as one packet.
class RawSocket {
 public:
  explicit RawSocket(std::uint16_t udp_port, bool v4 = true)
      : fd_(::socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC,
                     IPPROTO_UDP)),
        udp_port_(udp_port),
        v4_(v4) {
    const int bytes = 64 << 20;
    if (fd_.open()) (void)::setsockopt(fd_.fd(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  }
  [[nodiscard]] bool open() const { return fd_.open(); }

  struct Seen {
    std::size_t packets = 0;
    std::size_t bursts = 0;      ///< longer than a packet of 4 KiB
    std::size_t wrong_icrc = 0;  ///< IPv4: over the headers as they are
  };
  [[nodiscard]] Seen take() const {
    Seen seen;
    std::vector<std::uint8_t> packet(1 << 16);
    for (ssize_t n; (n = ::recv(fd_.fd(), packet.data(), packet.size(), 0)) > 0;) {
      const Bytes ip = Bytes(packet).first(static_cast<std::size_t>(n));
      const auto& udp = wire::view_as<wire::Udp>(ip.subspan(v4_ ? sizeof(wire::Ipv4) : 0));
      if (udp.destination_port != udp_port_) continue;
      ++seen.packets;
      seen.bursts += ip.size() > 4096 + 128;
      if (!v4_) continue;
      const Bytes whole = ip.subspan(sizeof(wire::Ipv4) + sizeof(wire::Udp));
      const Bytes covered = whole.first(whole.size() - wire::kIcrcSize);
      const auto prefix = wire::IcrcPrefix::of_packet(ip.first(sizeof(wire::Ipv4)), udp);
      seen.wrong_icrc +=
          wire::icrc(prefix, covered) != wire::load_icrc(whole.data() + covered.size());
    }
    return seen;
  }

 private:
  UniqueFd fd_;
  std::uint16_t udp_port_;
  bool v4_;
};

std::uint16_t udp_port_of(const QueuePair& qp) {
  return qp.local_info().planes.front().udp_port;
}

TEST_CASE("a foreign peer: what foreign_peer() says of it, also encoded") {
  const std::vector<port::PeerAddress> planes{{port::make_v4(192, 0, 2, 1), 4791},
                                              {port::make_v4(192, 0, 2, 2), 4971}};
  ConnectionInfo info = foreign_peer(Qpn{0x123456}, Psn{77}, planes);
  CHECK(info.foreign);
  CHECK_FALSE(info.solicited);
  CHECK(info.tag == 0);
  CHECK_FALSE(info.rc);
  CHECK(info.slot == 0);
  CHECK(info.planes == planes);
  CHECK(contains(to_string(info), "foreign"));
  info.mtu = 1024;  // that of the connection is not known before it is made
  const ConnectionInfo read = decode_connection_info(encode(info));
  CHECK(read == info);
}

TEST_CASE("a foreign peer: writes both ways over all planes, with the MTU of this side") {
  Config config = test_config();
  config.mtu = 1408;
  Side a(config), b(Pair::other(config));
  connect_as_foreign(a.add_qp(), b.add_qp());
  CHECK(a.qps[0].query().mtu == 1024);  // powers of two only
  for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    REQUIRE(post_copy(*from, from->qps[0], *to, 0, from->source.size()) == Errc::ok);
    CHECK(from->await_one().status == WcStatus::success);
    CHECK(from->source == to->target);
  }
  const std::vector<PathReport> paths = a.device.paths(a.qps[0]);
  CHECK(paths.size() == 8);
  CHECK(std::all_of(paths.begin(), paths.end(), [](const PathReport& p) { return p.packets > 0; }));
}

TEST_CASE("a foreign peer over IPv4: packets leave one by one with the right iCRC, and a line") {
  LogLines lines;
  Config config = test_config("loopback:1");
  lines.capture(config, LogLevel::warn);
  Side a(config), b(Pair::other(test_config("loopback:1")));
  a.qps.reserve(2);
  b.qps.reserve(2);
  connect_as_foreign(a.add_qp(), b.add_qp());
  const RawSocket raw(udp_port_of(b.qps[0]));
  if (!raw.open()) std::puts("[test skipped] looking at packets needs CAP_NET_RAW");
  REQUIRE(post_copy(a, a.qps[0], b, 0, a.source.size()) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
  CHECK(a.source == b.target);
  if (raw.open()) {
    const RawSocket::Seen seen = raw.take();
    CHECK(seen.packets >= a.source.size() / 4096);
    CHECK(seen.bursts == 0);
    CHECK(seen.wrong_icrc == 0);
  }
  // The same process as an OpenMRC peer is sent bursts.
  connect(a.add_qp(), b.add_qp());
  REQUIRE(post_copy(a, a.qps[1], b, 0, a.source.size()) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
  if (raw.open()) CHECK(raw.take().bursts > 0);
  CHECK(lines.count("is not OpenMRC") == 1);
}

TEST_CASE("a foreign peer over IPv6 is sent bursts, and no line is said") {
  if (!has_ipv6()) return;
  LogLines lines;
  Config config = test_config("loopback6:1");
  lines.capture(config, LogLevel::warn);
  Side a(config), b(Pair::other(test_config("loopback6:1")));
  connect_as_foreign(a.add_qp(), b.add_qp());
  const RawSocket raw(udp_port_of(b.qps[0]), false);
  if (!raw.open()) std::puts("[test skipped] looking at packets needs CAP_NET_RAW");
  REQUIRE(post_copy(a, a.qps[0], b, 0, a.source.size()) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
  CHECK(a.source == b.target);
  if (raw.open()) CHECK(raw.take().bursts > 0);
  CHECK(lines.count("is not OpenMRC") == 0);
}

TEST_CASE("a foreign peer: one whose ConnectionInfo a program has filled in") {
  Side a(test_config("loopback:1")), b(Pair::other(test_config("loopback:1")));
  const ConnectionInfo said = b.add_qp().local_info();
  CHECK_FALSE(said.foreign);
  CHECK(said.solicited);
  ConnectionInfo info;
  info.device_guid = said.device_guid;
  info.qpn = said.qpn;
  info.start_psn = said.start_psn;
  info.slot = said.slot;
  info.planes = said.planes;
  CHECK_FALSE(info.solicited);
  const RawSocket raw(udp_port_of(b.qps[0]));
  if (!raw.open()) std::puts("[test skipped] looking at packets needs CAP_NET_RAW");
  a.add_qp().connect(info);
  b.qps[0].connect(as_foreign(a.qps[0]));
  REQUIRE(post_copy(a, a.qps[0], b, 0, a.source.size()) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
  if (raw.open()) {
    const RawSocket::Seen seen = raw.take();
    CHECK(seen.packets >= a.source.size() / 4096);
    CHECK(seen.bursts == 0);
    CHECK(seen.wrong_icrc == 0);
  }
}

TEST_CASE("a peer in strict mode counts as another implementation") {
  Config config = test_config("loopback:1");
  config.strict = true;
  Side a(config), b(Pair::other(test_config("loopback:1")));
  const RawSocket raw(udp_port_of(b.add_qp()));
  connect(a.add_qp(), b.qps[0]);
  REQUIRE(post_copy(a, a.qps[0], b, 0, a.source.size()) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
  if (raw.open()) CHECK(raw.take().wrong_icrc == 0);
}

}  // namespace foreign_test
