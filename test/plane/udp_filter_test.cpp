// SPDX-License-Identifier: Apache-2.0
#include "mrc/plane/udp_port.hpp"

#include <doctest/doctest.h>
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "mrc/net/interface.hpp"
#include "mrc/wire/opcode.hpp"
#include "udp_rig.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace udp_filter_test {

constexpr std::uint32_t kLargest = 1500;

/// A socket with the filter, and one that sends to it.
struct Sockets {
  explicit Sockets(const LocalAddress& local)
      : receiver(make_udp_socket(local)), sender(make_udp_socket(local)) {
    REQUIRE(try_bind(receiver, SocketAddress(local.ip, 0)));
    to = SocketAddress(local.ip, bound_port(receiver));
    attach_udp_filter(receiver, kLargest);
  }
  bool passes(const std::vector<std::uint8_t>& bytes) {
    REQUIRE(::sendto(sender.fd(), bytes.data(), bytes.size(), 0, &to.any, to.length) ==
            static_cast<ssize_t>(bytes.size()));
    std::array<std::uint8_t, 65536> got;
    const ssize_t n = ::recv(receiver.fd(), got.data(), got.size(), MSG_DONTWAIT);
    if (n < 0) return false;
    CHECK(static_cast<std::size_t>(n) == bytes.size());
    CHECK(std::equal(bytes.begin(), bytes.end(), got.begin()));
    return true;
  }

  Socket receiver, sender;
  SocketAddress to;
};

TEST_CASE("UDP filter: passes what may be MRC, drops the rest in the kernel") {
  for (const bool v4 : {true, false}) {
    const auto local = loopback(v4);
    if (!local) continue;
    Sockets sockets(*local);
    Random random(7);
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
      for (const std::size_t size : {0, 1, 11, 12, 16, 52, 1068}) {
        std::vector<std::uint8_t> bytes(size);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
        if (size > 0) bytes[0] = static_cast<std::uint8_t>(opcode);
        if (size > 1) bytes[1] &= 0xF0;
        CAPTURE(opcode);
        CAPTURE(size);
        CHECK(sockets.passes(bytes) ==
              (size >= 12 && wire::is_known(static_cast<std::uint8_t>(opcode))));
      }
    }
    std::vector<std::uint8_t> bytes(64);
    bytes[0] = 0xCA;
    for (unsigned version = 0; version < 16; ++version) {
      bytes[1] = static_cast<std::uint8_t>(0xF0 | version);
      CHECK(sockets.passes(bytes) == (version == 0));
    }
    // Longer than a packet: joined by the kernel, and for the port to take apart.
    bytes.assign(kLargest, 0xFF);
    CHECK_FALSE(sockets.passes(bytes));
    bytes.assign(kLargest + 1, 0xFF);
    CHECK(sockets.passes(bytes));
  }
}

TEST_CASE(
    "UDP filter: bursts of real packets pass, joined or not; garbage is counted by the kernel") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  for (const Offload gro : {Offload::automatic, Offload::off}) {
    UdpPortOptions options = options_for(local);
    options.gro = gro;
    Rig rig(options, options);
    Socket stranger = make_udp_socket(local);
    const SocketAddress to(local.ip, rig.receiver.address().udp_port);
    const std::array<std::uint8_t, 100> garbage{};
    for (std::uint32_t n = 0; n < 512; n += 32) {
      for (std::uint32_t i = 0; i < 32; ++i)
        rig.add(n + i, 1024, static_cast<std::uint16_t>(n / 32 % 4));
      CHECK(rig.send() == 32);
      REQUIRE(::sendto(stranger.fd(), garbage.data(), garbage.size(), 0, &to.any, to.length) > 0);
      rig.receive();
    }
    CHECK(rig.arrived.size() == 512);
    CHECK(rig.bad_icrc == 0);
    CHECK(rig.receiver.stats().rx_malformed == 0);
    CHECK(rig.receiver.stats().rx_overrun == 16);
  }
}

}  // namespace udp_filter_test
