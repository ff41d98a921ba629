// SPDX-License-Identifier: Apache-2.0
// Packets whose iCRC leaves the payload out (wire::Bth::head_check()): from whom a UdpPort takes
// them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "mrc/net/interface.hpp"
#include "mrc/wire/icrc.hpp"
#include "plane/udp_rig.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace udp_head_check_test {

constexpr std::size_t kHead = wire::kMaxTransportHeader;

/// A receiving port, and a socket that sends it packets byte by byte.
class Bench {
 public:
  explicit Bench(const LocalAddress& local)
      : receiver(open_port(options_for(local))),
        socket_(::socket(is_v4(local.ip) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
        prefix_(wire::IcrcPrefix::make(local.ip, local.ip, receiver.address().udp_port)) {
    REQUIRE(try_bind(socket_, SocketAddress(local.ip, 0)));
  }

  /// A packet with that payload, and the iCRC of it all, or of its head.
  [[nodiscard]] std::vector<std::uint8_t> packet(std::size_t payload, bool marked, bool of_head) {
    std::vector<std::uint8_t> bytes(sizeof(wire::Bth));
    auto bth = wire::Bth::make(wire::Opcode{0xCA}, Qpn{7}, Psn{1});
    bth.set_head_check(marked);
    std::memcpy(bytes.data(), &bth, sizeof bth);
    const auto data = payload_of(1, payload);
    bytes.insert(bytes.end(), data.begin(), data.end());
    prefix_.patch(bound_port(socket_), static_cast<std::uint16_t>(bytes.size() + 8 + 4));
    const std::uint32_t check =
        of_head ? wire::icrc_of_head(prefix_, bytes) : wire::icrc(prefix_, bytes);
    bytes.resize(bytes.size() + 4);
    wire::store_icrc(bytes.data() + bytes.size() - 4, check);
    return bytes;
  }
  /// Does the port find its iCRC right?
  [[nodiscard]] bool right(const std::vector<std::uint8_t>& bytes) {
    const SocketAddress to(receiver.address().ip, receiver.address().udp_port);
    REQUIRE(::sendto(socket_.fd(), bytes.data(), bytes.size(), 0, &to.any, to.length) ==
            static_cast<ssize_t>(bytes.size()));
    rx_.clear();
    receiver.receive(monotonic_now(), rx_);
    REQUIRE(rx_.packets().size() == 1);
    return rx_.packets()[0].check == 0;
  }
  /// Enters the sender as a peer.
  void add_peer(PeerId id, bool heads) {
    UdpRoute route(PeerAddress{receiver.address().ip, bound_port(socket_)});
    route.heads = heads;
    receiver.add_peer(id, route);
  }

  UdpPort receiver;

 private:
  Socket socket_;
  wire::IcrcPrefix prefix_;
  RxBurst rx_{16};
};

std::vector<std::uint8_t> damaged(std::vector<std::uint8_t> bytes, std::size_t at) {
  bytes[at] ^= 0x40;
  return bytes;
}

TEST_CASE("head check: of an agreed peer every byte of the head counts, and the iCRC; no payload") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    Bench bench(local);
    bench.add_peer(PeerId{3}, true);
    const auto good = bench.packet(1000, true, true);
    CHECK(bench.right(good));
    for (std::size_t at = 2; at < kHead; ++at) {  // the filter drops other opcodes and versions
      CAPTURE(at);
      CHECK(bench.right(damaged(good, at)) == (at == 4));  // masked, but for the bit
    }
    for (const std::size_t at : {kHead, std::size_t{700}, good.size() - 5})
      CHECK(bench.right(damaged(good, at)));
    for (std::size_t at = good.size() - 4; at < good.size(); ++at)
      CHECK_FALSE(bench.right(damaged(good, at)));
    auto other = good;
    other[4] ^= wire::Bth::kHeadCheckBit;  // then the iCRC is that of the whole packet, and wrong
    CHECK_FALSE(bench.right(other));
    auto shorter = good;  // the length is in the headers that the iCRC covers
    shorter.erase(shorter.begin() + 500, shorter.begin() + 504);
    CHECK_FALSE(bench.right(shorter));
  }
}

TEST_CASE("head check: a packet of an agreed peer with the whole iCRC is checked as a whole") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Bench bench(local);
  bench.add_peer(PeerId{3}, true);
  const auto whole = bench.packet(1000, false, false);
  CHECK(bench.right(whole));
  for (std::size_t at = 5; at < whole.size(); at += 7) CHECK_FALSE(bench.right(damaged(whole, at)));
}

TEST_CASE("head check: of others it is refused, and what may change on the way means nothing") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Bench bench(local);
  for (const bool known : {false, true}) {
    if (known) bench.add_peer(PeerId{3}, false);
    CHECK_FALSE(bench.right(bench.packet(1000, true, true)));
    CHECK_FALSE(bench.right(damaged(bench.packet(1000, true, true), 700)));
    CHECK(bench.right(bench.packet(1000, true, false)));
    CHECK(bench.right(bench.packet(1000, false, false)));
    CHECK(bench.right(bench.packet(20, true, true)));  // all of it is head
  }
}

TEST_CASE("head check: as long as one of the peers at that address has agreed") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Bench bench(local);
  const auto taken = [&] { return bench.right(bench.packet(1000, true, true)); };
  bench.add_peer(PeerId{3}, true);
  bench.add_peer(PeerId{4}, true);
  bench.add_peer(PeerId{4}, true);  // its route was set anew
  bench.add_peer(PeerId{5}, false);
  CHECK(taken());
  bench.receiver.remove_peer(PeerId{3});
  bench.receiver.remove_peer(PeerId{5});
  CHECK(taken());
  bench.receiver.remove_peer(PeerId{4});
  CHECK_FALSE(taken());
  bench.receiver.remove_peer(PeerId{4});
  bench.add_peer(PeerId{3}, true);
  CHECK(taken());
  bench.add_peer(PeerId{3}, false);
  CHECK_FALSE(taken());
}

TEST_CASE("head check: what a port sends is right, in bursts and one by one") {
  for (const bool v4 : {true, false}) {
    for (const Offload offload : {Offload::automatic, Offload::off}) {
      MRC_LOOPBACK_OR_SKIP(local, v4);
      UdpPortOptions options = options_for(local);
      options.gso = options.gro = offload;
      Rig rig(options, options);
      UdpRoute route(rig.sender.address());
      route.heads = true;
      rig.receiver.add_peer(PeerId{0}, route);
      std::vector<std::size_t> sizes;
      for (const std::size_t payload : {0u, 1u, 7u, 34u, 35u, 36u, 37u, 38u, 50u, 4096u, 16'384u}) {
        for (int i = 0; i < 6; ++i) {
          std::array<std::uint8_t, sizeof(wire::Bth)> header{};
          const auto number = static_cast<std::uint32_t>(sizes.size());
          auto bth = wire::Bth::make(wire::Opcode{0xCA}, Qpn{7}, Psn{number});
          bth.set_head_check(true);
          std::memcpy(header.data(), &bth, sizeof bth);
          rig.append(header, number, payload, 1, Ecn::ect0, 4, Ev{});
          sizes.push_back(payload);
        }
        CHECK(rig.send() == 6);
        rig.receive();
      }
      CHECK(rig.bad_icrc == 0);
      REQUIRE(rig.arrived.size() == sizes.size());
      for (const Arrived& a : rig.arrived) {
        const auto expected = payload_of(Rig::number_of(a), sizes[Rig::number_of(a)]);
        REQUIRE(a.bytes.size() >= sizeof(wire::Bth) + expected.size());
        CHECK(std::equal(expected.begin(), expected.end(), a.bytes.begin() + sizeof(wire::Bth)));
      }
    }
  }
}

TEST_CASE("network namespace: one number in each, and packets to own addresses stay on loopback") {
  const std::uint64_t here = network_namespace();
  CHECK(here != 0);
  CHECK(network_namespace() == here);
  mrc::test::in_new_network([&] {
    CHECK(network_namespace() != here);
    CHECK(network_namespace() != 0);
    const auto stays = [](const char* from, const char* to) {
      return stays_on_loopback(parse_ip(from), parse_ip(to));
    };
    mrc::test::shell(
        "ip link set lo up; ip link add p0 type veth peer name q0; ip link set q0 up; ip link set "
        "p0 up; ip addr add 10.9.0.1/24 dev p0; ip addr add fd09::1/64 dev p0 nodad; " +
        mrc::test::await_own_route("fd09::1"));
    CHECK(stays("127.0.0.1", "127.0.0.1"));
    CHECK(stays("127.0.0.1", "127.0.0.9"));
    CHECK(stays("10.9.0.1", "10.9.0.1"));
    CHECK(stays("127.0.0.1", "10.9.0.1"));
    CHECK_FALSE(stays("10.9.0.1", "10.9.0.2"));
    CHECK_FALSE(stays("10.9.0.1", "192.0.2.1"));  // no route
    CHECK_FALSE(stays("10.9.0.7", "10.9.0.1"));   // no own address
    CHECK(stays("::1", "::1"));
    CHECK(stays("fd09::1", "fd09::1"));
    CHECK_FALSE(stays("fd09::1", "fd09::2"));
    CHECK_FALSE(stays("fd09::1", "2001:db8::1"));
  });
}

}  // namespace udp_head_check_test
