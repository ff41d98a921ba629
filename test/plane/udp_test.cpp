// SPDX-License-Identifier: Apache-2.0
#include "mrc/plane/udp_port.hpp"

#include <doctest/doctest.h>
#include <netinet/udp.h>

#include <algorithm>
#include <map>
#include <set>

#include "mrc/net/interface.hpp"
#include "mrc/plane/udp_kind.hpp"
#include "udp_rig.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace udp_test {

/// Sends `count` packets of all sizes on all paths and checks each byte and fact.
void round_trip(Rig& rig, std::uint32_t count, std::size_t largest) {
  std::map<std::uint32_t, std::size_t> sizes;
  std::map<std::uint32_t, std::uint16_t> paths;
  Random random(42);
  const auto path_count = static_cast<std::uint32_t>(rig.sender.paths().size());
  for (std::uint32_t n = 0; n < count;) {
    const auto path = static_cast<std::uint16_t>(random.below(path_count));
    const std::size_t size = random.below(4) == 0
                                 ? random.below(static_cast<std::uint32_t>(largest))
                                 : std::min<std::size_t>(4096, largest);
    for (std::uint32_t run = 1 + random.below(20); run > 0 && n < count; --run, ++n) {
      sizes[n] = run == 1 ? size / 2 : size;
      paths[n] = path;
      rig.add(n, sizes[n], path);
    }
    REQUIRE(rig.send() > 0);
    rig.receive();
  }
  REQUIRE(rig.arrived.size() == count);
  std::map<std::uint16_t, std::uint32_t> last;
  for (const Arrived& a : rig.arrived) {
    const std::uint32_t n = Rig::number_of(a);
    const std::size_t pad = (4 - sizes[n] % 4) % 4;
    std::vector<std::uint8_t> expected = payload_of(n, sizes[n]);
    expected.resize(sizes[n] + pad, 0);
    REQUIRE(a.bytes.size() == 12 + expected.size());
    REQUIRE(std::equal(expected.begin(), expected.end(), a.bytes.begin() + 12));
    CHECK(a.facts.entropy == rig.sender.paths()[paths[n]].ev);
    CHECK(a.facts.ecn == Ecn::ect0);
    CHECK(a.facts.trim == wire::Trim::none);
    CHECK(a.facts.udp_length == 8 + 12 + expected.size() + 4);
    CHECK(a.facts.source == rig.tag);
    if (last.count(paths[n]) != 0) CHECK(last[paths[n]] < n);  // one path keeps its order
    last[paths[n]] = n;
  }
  CHECK(rig.receiver.stats().rx_packets == count);
  CHECK(rig.sender.stats().tx_packets == count);
  CHECK(rig.sender.stats().tx_bytes == rig.receiver.stats().rx_bytes);
  CHECK(rig.bad_icrc == 0);
  CHECK(rig.receiver.stats().rx_malformed == 0);
  CHECK(rig.receiver.stats().rx_overrun == 0);
}

void round_trip_case(bool v4, Offload gso, Offload gro, bool icrc, std::uint16_t paths) {
  MRC_LOOPBACK_OR_SKIP(local, v4);
  UdpPortOptions options = options_for(local, paths);
  options.gso = gso;
  options.gro = gro;
  options.icrc = icrc;
  Rig rig(options, options);
  round_trip(rig, 600, 8192);
}

TEST_CASE("bursts arrive complete") {
  for (const bool v4 : {true, false}) {
    for (const auto gso : {Offload::automatic, Offload::off})
      for (const auto gro : {Offload::automatic, Offload::off})
        round_trip_case(v4, gso, gro, true, 16);
    round_trip_case(v4, Offload::automatic, Offload::automatic, false, 1);
  }
}

TEST_CASE("packets of every size from none to the largest that loopback takes") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    Rig rig = make_rig(local);
    const std::uint32_t largest = rig.sender.capabilities().max_packet - 12 - 4;
    CHECK(largest > 60000);
    std::vector<std::size_t> sizes = {0, 1, 2, 3, 4, 5, 255, 256, 1500, 4096, 9000, 32768, 40000};
    sizes.push_back(largest - largest % 4);
    std::uint32_t n = 0;
    for (const std::size_t size : sizes) {
      rig.add(n++, size, 0);
      CHECK(rig.send() == 1);
      rig.receive();
      REQUIRE(rig.arrived.size() == n);
      CHECK(rig.arrived.back().bytes.size() == 12 + size + (4 - size % 4) % 4);
    }
    // One that is too long is given up, and the ones around it go.
    rig.add(n, 100, 0);
    rig.add(n + 1, largest + 4, 0);
    rig.add(n + 2, 100, 0);
    CHECK(rig.send() == 3);
    CHECK(rig.sender.stats().tx_errors == 1);
    rig.receive();
    CHECK(rig.arrived.size() == n + 2);
  }
}

TEST_CASE("a burst of equal packets is one system call on both sides") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  if (!rig.sender.capabilities().segmentation || !rig.receiver.capabilities().coalescing) {
    MESSAGE("skipped: this kernel has no GSO or GRO for UDP");
    return;
  }
  for (std::uint32_t n = 0; n < 15; ++n) rig.add(n, n < 14 ? 4096 : 100, 2);
  CHECK(rig.send() == 15);
  rig.receive();
  CHECK(rig.arrived.size() == 15);
  CHECK(rig.sender.stats().tx_calls == 1);
  CHECK(rig.receiver.stats().rx_calls == 1);
}

TEST_CASE("segments and packets that do not fit into one message go in several") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  for (std::uint32_t n = 0; n < 200; ++n) rig.add(n, n < 150 ? 20 : 8000, 1);
  CHECK(rig.send() == 200);
  rig.receive();
  REQUIRE(rig.arrived.size() == 200);
  for (std::uint32_t n = 0; n < 200; ++n) CHECK(Rig::number_of(rig.arrived[n]) == n);
}

TEST_CASE("packets of mixed sizes on one path keep their borders") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  const std::size_t sizes[] = {400, 200, 400, 400, 200, 200, 100, 400, 0, 400, 404, 400};
  std::uint32_t n = 0;
  for (const std::size_t size : sizes) rig.add(n++, size, 0);
  CHECK(rig.send() == n);
  rig.receive();
  REQUIRE(rig.arrived.size() == n);
  for (std::uint32_t i = 0; i < n; ++i) {
    CHECK(Rig::number_of(rig.arrived[i]) == i);
    CHECK(rig.arrived[i].bytes.size() == 12 + sizes[i]);
  }
}

TEST_CASE("ECN and DSCP of each packet arrive") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    Rig rig = make_rig(local);
    const wire::DscpMap dscp;
    std::uint32_t n = 0;
    for (const Ecn ecn : {Ecn::not_ect, Ecn::ect1, Ecn::ect0, Ecn::ce}) rig.add(n++, 64, 0, ecn);
    rig.add(n++, 64, 0, Ecn::ect0, dscp.trimmed);
    rig.add(n++, 64, 0, Ecn::ect0, dscp.trimmed_last_hop);
    rig.add(n++, 64, 0, Ecn::ect0, dscp.control);
    for (const Ecn ecn : {Ecn::ect0, Ecn::not_ect}) rig.add(n++, 64, 0, ecn, dscp.no_trim);
    CHECK(rig.send() == n);
    rig.receive();
    REQUIRE(rig.arrived.size() == n);
    CHECK((rig.arrived[7].facts.ecn == Ecn::ect0 && rig.arrived[8].facts.ecn == Ecn::not_ect));
    for (std::uint32_t i = 0; i < 4; ++i) {
      CHECK(rig.arrived[i].facts.ecn == static_cast<Ecn>(i));
      CHECK(rig.arrived[i].facts.trim == wire::Trim::none);
    }
    // By its DSCP a packet is trimmed, so its end is taken for payload, not for an iCRC.
    CHECK(rig.arrived[4].facts.trim == wire::Trim::trimmed);
    CHECK(rig.arrived[4].bytes.size() == 12 + 64 + 4);
    CHECK(rig.arrived[5].facts.trim == wire::Trim::trimmed_last_hop);
    CHECK(rig.arrived[6].facts.trim == wire::Trim::none);
  }
}

TEST_CASE("every path has an entropy value of its own") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    Rig rig = make_rig(local, 64);
    std::set<std::uint32_t> values;
    for (const PortPath& path : rig.sender.paths()) values.insert(value(path.ev));
    CHECK(values.size() == 64);
    if (v4) {
      CHECK(rig.sender.ev_format() == wire::EvFormat::udp);
      CHECK(*values.rbegin() <= 0xFFFF);
    } else if (rig.sender.notes().empty()) {
      CHECK(rig.sender.ev_format() == wire::EvFormat::stev);
      CHECK(*values.begin() > 0xFFFF);  // each has a flow label
    } else {
      MESSAGE("no flow labels here: ", rig.sender.notes()[0]);
    }
  }
}

TEST_CASE("source ports and flow labels can be chosen") {
  MRC_LOOPBACK_OR_SKIP(local, false);
  UdpPortOptions options = options_for(local, 3);
  options.source_ports = {26001, 26002, 26003};
  options.flow_labels = {0x1111, 0, 0xFFFF};
  options.ev_format = wire::EvFormat::stev;
  UdpPortOptions other = options_for(local, 1);
  other.ev_format = wire::EvFormat::stev;
  Rig rig(options, other);
  for (std::uint32_t n = 0; n < 3; ++n) rig.add(n, 64, static_cast<std::uint16_t>(n));
  CHECK(rig.send() == 3);
  rig.receive();
  REQUIRE(rig.arrived.size() == 3);
  for (std::uint32_t n = 0; n < 3; ++n)
    CHECK((value(rig.arrived[n].facts.entropy) & 0xFFFF) == 26001 + n);
  if (!rig.sender.notes().empty()) return;
  CHECK(rig.arrived[0].facts.entropy == Ev{0x1111'0000 + 26001});
  CHECK(rig.arrived[1].facts.entropy == Ev{26002});
  CHECK(rig.arrived[2].facts.entropy == Ev{0xFFFF'0000 + 26003});

  options.paths = 2;
  CHECK_THROWS_WITH_AS(UdpPort{options}, doctest::Contains("source_ports is 3"), Error);
}

TEST_CASE("what does not fit into the receiver's burst waits, and the port says so") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  for (std::uint32_t n = 0; n < 60; ++n) rig.add(n, 500, 0);
  CHECK(rig.send() == 60);
  CHECK(readable(rig.receiver.poll_fd()));
  RxBurst small(7);
  std::uint32_t next = 0;
  while (next < 60) {
    REQUIRE(rig.more());
    small.clear();
    rig.receiver.receive(Rig::now(), small);
    REQUIRE(!small.empty());
    for (const wire::RxPacket& p : small.packets())
      CHECK(Rig::number_of({p, {p.bytes.begin(), p.bytes.end()}}) == next++);
  }
  CHECK(next == 60);
  CHECK_FALSE(rig.more());
}

TEST_CASE("nothing is lost up to the receive buffer that the port claims") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  struct Case {
    Offload gso;
    std::size_t payload;
    std::uint32_t buffer;
  };
  for (const Case& c :
       {Case{Offload::automatic, 4096, 1u << 20}, Case{Offload::off, 4096, 1u << 20},
        Case{Offload::off, 1024, 1u << 20}, Case{Offload::off, 1700, 1u << 18},
        Case{Offload::off, 4096, 100'000}, Case{Offload::off, 4096, 8u << 20}}) {
    CAPTURE(c.payload);
    CAPTURE(c.buffer);
    UdpPortOptions options = options_for(local, 8);
    options.gso = c.gso;
    options.receive_buffer = c.buffer;
    Rig rig(options, options);
    const std::uint64_t promised = rig.receiver.capabilities().receive_buffer;
    CHECK(promised > 0);
    std::uint64_t sent = 0;
    // Twice, the second time with a reader who has just begun: the kernel then gives part of the
    // buffer back late.
    for (int round = 0; round < 2; ++round) {
      std::uint64_t unread = 0;
      for (std::uint32_t n = 0; unread + c.payload <= promised; ++n, ++sent) {
        rig.add(n, c.payload, static_cast<std::uint16_t>(n / 8 % 8));
        unread += c.payload;
        if (n % 64 == 63) (void)rig.send();
      }
      (void)rig.send();
      rig.receive();
      CHECK(rig.arrived.size() == sent);
      CHECK(rig.receiver.stats().rx_overrun == 0);
    }
  }
}

TEST_CASE("what the receive buffer can't hold is counted") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  UdpPortOptions options = options_for(local);
  options.receive_buffer = 20000;
  Rig rig(options, options);
  for (std::uint32_t n = 0; n < 100; ++n) rig.add(n, n % 2 == 0 ? 4000 : 4008, 0);
  CHECK(rig.send() == 100);
  rig.receive();
  const PortStats stats = rig.receiver.stats();
  CHECK(stats.rx_overrun > 0);
  CHECK(stats.rx_packets < 100);
}

TEST_CASE("peers that are unknown, gone or of the other family") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  CHECK_THROWS_WITH_AS(rig.sender.add_peer(PeerId{1}, parse_address("[::1]:24791")),
                       doctest::Contains("[::1]:24791"), Error);
  CHECK_THROWS_AS(rig.sender.add_peer(PeerId{1}, PeerAddress{make_v4(127, 0, 0, 1), 0}), Error);
  CHECK_THROWS_AS(rig.sender.add_peer(PeerId{1}, parse_address("0.0.0.0")), Error);
  CHECK_THROWS_AS(rig.sender.add_peer(PeerId{0xFFFFFFFF}, rig.receiver.address()), Error);
  CHECK(rig.sender.add_peer(PeerId{9}, rig.receiver.address()) == source_tag(local.ip));

  rig.add(1, 64, 77);  // no such path
  CHECK(rig.send() == 1);
  CHECK(rig.sender.stats().tx_errors == 1);
  rig.sender.remove_peer(PeerId{5});
  rig.sender.remove_peer(PeerId{12345});
  rig.add(2, 64, 0);
  CHECK(rig.send() == 1);
  CHECK(rig.sender.stats().tx_errors == 2);
  CHECK(rig.sender.stats().tx_packets == 0);
}

TEST_CASE("foreign datagrams are counted and dropped") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    Rig rig = make_rig(local);
    Socket stranger = make_udp_socket(local);
    const PeerAddress target = rig.receiver.address();
    const SocketAddress to(target.ip, target.udp_port);
    std::vector<std::uint8_t> junk = payload_of(1, 2000);
    junk[0] = 0xCA;  // else the socket's filter drops all of it
    junk[1] = 0;
    for (std::size_t size = 0; size < 16; ++size)
      REQUIRE(sendto(stranger.fd(), junk.data(), size, 0, &to.any, to.length) >= 0);
    for (std::size_t size = 16; size < 2000; size += 31)
      REQUIRE(sendto(stranger.fd(), junk.data(), size, 0, &to.any, to.length) >= 0);
    rig.add(1, 300, 0);
    CHECK(rig.send() == 1);
    rig.receive();
    CHECK(rig.arrived.size() == 1);
    CHECK(rig.receiver.stats().rx_overrun == 12);  // shorter than a BTH
    CHECK(rig.receiver.stats().rx_malformed == 4);
    CHECK(rig.bad_icrc == 64);
  }
}

TEST_CASE("a packet without a UDP checksum arrives, as NICs and packet ports send it") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    Rig rig = make_rig(local);
    Socket stranger = make_udp_socket(local);
    REQUIRE(try_bind(stranger, SocketAddress(local.ip, 0)));
    const bool without = v4 ? try_option(stranger, SOL_SOCKET, SO_NO_CHECK, 1)
                            : try_option(stranger, SOL_UDP, UDP_NO_CHECK6_TX, 1);
    REQUIRE(without);
    const auto bth = wire::Bth::make(wire::Opcode{0xCA}, Qpn{7}, Psn{1});
    std::array<std::uint8_t, 16> packet{};
    std::memcpy(packet.data(), &bth, sizeof bth);
    const PeerAddress target = rig.receiver.address();
    auto prefix = wire::IcrcPrefix::make(local.ip, target.ip, target.udp_port);
    prefix.patch(bound_port(stranger), 24);
    wire::store_icrc(packet.data() + 12, wire::icrc(prefix, Bytes(packet).first(12)));
    const SocketAddress to(target.ip, target.udp_port);
    REQUIRE(sendto(stranger.fd(), packet.data(), packet.size(), 0, &to.any, to.length) == 16);
    rig.receive();
    CHECK(rig.arrived.size() == 1);
    CHECK(rig.bad_icrc == 0);
  }
}

TEST_CASE("a packet with the iCRC of another path or address is refused") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  // A right packet, sent from a port that its iCRC does not cover.
  const auto bth = wire::Bth::make(wire::Opcode{0xCA}, Qpn{7}, Psn{1});
  std::array<std::uint8_t, 16> packet{};
  std::memcpy(packet.data(), &bth, 12);
  Socket socket = make_udp_socket(local);
  REQUIRE(try_bind(socket, SocketAddress(local.ip, 0)));
  const PeerAddress target = rig.receiver.address();
  const SocketAddress to(target.ip, target.udp_port);
  auto prefix = wire::IcrcPrefix::make(local.ip, target.ip, target.udp_port);
  for (const std::uint16_t off : {std::uint16_t{0}, std::uint16_t{1}}) {
    prefix.patch(static_cast<std::uint16_t>(bound_port(socket) + off), 24);
    wire::store_icrc(packet.data() + 12, wire::icrc(prefix, Bytes(packet).first(12)));
    REQUIRE(sendto(socket.fd(), packet.data(), 16, 0, &to.any, to.length) == 16);
  }
  rig.receive();
  CHECK(rig.arrived.size() == 1);
  CHECK(rig.bad_icrc == 1);
}

TEST_CASE("a kernel that refuses GSO gets single packets from then on") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  // Linux refuses GSO, with the error that stands for "not here", where checksums are off.
  UdpPath path;
  path.socket = make_udp_socket(local);
  REQUIRE(try_bind(path.socket, SocketAddress(local.ip, 0)));
  REQUIRE(try_option(path.socket, SOL_SOCKET, SO_NO_CHECK, 1));
  path.source_port = bound_port(path.socket);
  const PeerAddress target = rig.receiver.address();
  UdpPeer peer;
  peer.address = SocketAddress(target.ip, target.udp_port);
  peer.prefix = wire::IcrcPrefix::make(local.ip, target.ip, target.udp_port);
  for (std::uint32_t n = 0; n < 10; ++n) rig.add(n, 500, 0);
  const auto transmitter =
      std::make_unique<UdpTransmitter>(true, true, true, std::uint8_t{0}, 9000u);
  PortStats stats;
  const auto outcome = transmitter->send(rig.burst, rig.burst.packets(rig.burst.groups()[0]), true,
                                         peer, path, stats);
  CHECK(outcome.taken == 10);
  CHECK_FALSE(transmitter->gso());
  CHECK(stats.tx_packets == 10);
  CHECK(stats.tx_errors == 0);
  rig.receive();
  CHECK(rig.arrived.size() == 10);
}

TEST_CASE("ports can be moved") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  Rig rig = make_rig(local);
  std::vector<UdpPort> ports;
  ports.push_back(std::move(rig.sender));
  ports.push_back(open_port(options_for(local)));
  rig.sender = std::move(ports[0]);
  for (std::uint32_t n = 0; n < 10; ++n) rig.add(n, 500, 3);
  CHECK(rig.send() == 10);
  rig.receive();
  CHECK(rig.arrived.size() == 10);
}

TEST_CASE("capabilities say what the port can do") {
  for (const bool v4 : {true, false}) {
    MRC_LOOPBACK_OR_SKIP(local, v4);
    const UdpPort port = open_port(options_for(local));
    CHECK(port.capabilities().exact_icrc == !v4);
    CHECK(port.capabilities().receive_buffer >= 50'000);
    CHECK(port.link_up());
    CHECK(port.interface().name == "lo");
    UdpPortOptions plain = options_for(local);
    plain.gso = plain.gro = Offload::off;
    const UdpPort slow = open_port(plain);
    CHECK_FALSE(slow.capabilities().segmentation);
    CHECK_FALSE(slow.capabilities().coalescing);
    CHECK(slow.capabilities().max_burst == 1);
  }
}

TEST_CASE("options out of range are named") {
  MRC_LOOPBACK_OR_SKIP(local, true);
  const auto rejected = [&](auto change, const char* text) {
    UdpPortOptions options = options_for(local);
    change(options);
    CHECK_THROWS_WITH_AS(UdpPort{options}, doctest::Contains(text), Error);
  };
  rejected([](auto& o) { o.paths = 0; }, "paths is 0, allowed is 1 to 4096");
  rejected([](auto& o) { o.flow_labels = {1}; }, "flow_labels is 1");
  rejected([](auto& o) { o.base_port = 65500, o.slot = 200; }, "base_port is 65500");
  rejected([](auto& o) { o.receive_slots = 0; }, "receive_slots is 0");
  rejected([](auto& o) { o.dscp.control = 64; }, "DSCP");
  rejected([](auto& o) { o.local = {}; }, "local address");
}

}  // namespace udp_test
