// SPDX-License-Identifier: Apache-2.0
// Packets to other implementations of MRC over IPv4, as they leave a host: read from a TUN device,
// for which the kernel cuts GSO bursts as it does for a NIC without that offload.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "mrc/core/unique_fd.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/transport.hpp"
#include "support/network.hpp"
#include "udp_rig.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace {

const PeerAddress kForeignPeer{make_v4(10, 9, 8, 2), 4791};

/// A TUN device of this thread's namespace at 10.9.8.1/24. Not open where there are none.
UniqueFd open_tun() {
  UniqueFd tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "mrctest");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!tun.open() || ::ioctl(tun.fd(), TUNSETIFF, &request) != 0) return {};
  mrc::test::shell("ip address add 10.9.8.1/24 dev mrctest && ip link set mrctest up");
  return tun;
}

struct WireCount {
  unsigned packets = 0;
  unsigned wrong_icrc = 0;  ///< over the header as it is
};

/// All packets to the peer that wait at the device.
WireCount take_from(int tun) {
  WireCount count;
  std::array<std::uint8_t, 2048> packet{};
  for (ssize_t n; (n = ::read(tun, packet.data(), packet.size())) > 0;) {
    const auto& ip = wire::view_as<wire::Ipv4>(packet);
    if (ip.version() != 4 || ip.protocol != IPPROTO_UDP) continue;
    const Bytes udp = Bytes(packet).first(static_cast<std::size_t>(n)).subspan(sizeof(wire::Ipv4));
    const auto& header = wire::view_as<wire::Udp>(udp);
    if (header.destination_port != kForeignPeer.udp_port) continue;
    const Bytes whole = udp.subspan(sizeof(wire::Udp));
    const Bytes covered = whole.first(whole.size() - wire::kIcrcSize);
    const auto prefix =
        wire::IcrcPrefix::of_packet(Bytes(packet).first(sizeof(wire::Ipv4)), header);
    ++count.packets;
    count.wrong_icrc +=
        wire::icrc(prefix, covered) != wire::load_icrc(whole.data() + covered.size());
  }
  return count;
}

/// Sends a burst of 8 packets by that route, and hands what left to `check`.
template <class F>
void send_burst(const UdpRoute& route, F&& check) {
  mrc::test::in_new_network([&] {
    const UniqueFd tun = open_tun();
    if (!tun.open()) return (void)std::puts("[test skipped] there is no /dev/net/tun");
    const UdpPortOptions options = options_for({make_v4(10, 9, 8, 1), ""}, 1);
    Rig rig(options, options);
    if (!rig.sender.capabilities().segmentation) return (void)std::puts("[test skipped] no GSO");
    rig.sender.add_peer(PeerId{5}, route);
    for (std::uint32_t i = 0; i < 8; ++i) rig.add(i, 1024, 0);
    CHECK(rig.send() == 8);
    const WireCount count = take_from(tun.fd());
    CHECK(count.packets == 8);
    check(count);
  });
}

}  // namespace

TEST_CASE("UDP over IPv4: packets to another implementation have the right iCRC in a burst") {
  UdpRoute route(kForeignPeer);
  route.real_header = true;
  send_burst(route, [](const WireCount& count) { CHECK(count.wrong_icrc == 0); });
}

TEST_CASE("UDP over IPv4: an OpenMRC peer is sent GSO bursts, whose segments have numbers") {
  send_burst(kForeignPeer, [](const WireCount& count) { CHECK(count.wrong_icrc == 7); });
}
