// SPDX-License-Identifier: Apache-2.0
#include "mrc/fabric/packet_port.hpp"

#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>

#include "mrc/faults/injector.hpp"
#include "mrc/net/interface.hpp"
#include "plane/packet_rig.hpp"
#include "support/errors.hpp"
#include "support/wait.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using mrc::test::eventually;
using mrc::test::in_new_network;
using mrc::test::shell;

TEST_CASE("packet port: packets arrive whole, with what the headers say") {
  on_veth([] {
    for (const bool srh : {false, true}) {
      PacketPortOptions a = packet_options(true), b = packet_options(false);
      if (srh) a.encapsulation = b.encapsulation = wire::Encapsulation::srh;
      PacketRig rig(a, b, packet_routes(srh));
      const std::array<std::size_t, 5> sizes{0, 1, 4096, 8192, 63};
      for (std::uint32_t i = 0; i < sizes.size(); ++i)
        rig.add(i, sizes[i], static_cast<std::uint16_t>(i % kRoutes),
                i % 2 == 0 ? Ecn::ect0 : Ecn::not_ect);
      CHECK(rig.send() == sizes.size());
      rig.receive(sizes.size());
      REQUIRE(rig.arrived.size() == sizes.size());
      for (std::uint32_t i = 0; i < sizes.size(); ++i) {
        CAPTURE(i);
        const Arrived& p = rig.arrived[i];
        CHECK(PacketRig::number_of(p) == i);
        CHECK(rig.payload(p) == payload_of(i, sizes[i]));
        CHECK(p.facts.entropy == Ev{0x50000u + i % kRoutes});
        CHECK(p.facts.ecn == (i % 2 == 0 ? Ecn::ect0 : Ecn::not_ect));
        CHECK(p.facts.source == rig.tag);
        CHECK(p.facts.udp_length == 8 + 32 + (sizes[i] + 3) / 4 * 4 + 4);
        CHECK(p.facts.trim == wire::Trim::none);
      }
      CHECK(rig.sender.stats().tx_packets == sizes.size());
      CHECK(rig.sender.stats().tx_calls == 1);  // whatever their paths
      CHECK(rig.receiver.stats().rx_packets == sizes.size());
      CHECK(rig.receiver.capabilities().max_packet == 9216u - (srh ? 112 : 88));
    }
  });
}

TEST_CASE("packet port: without encapsulation the EV is in flow label and source port") {
  on_veth([] {
    PacketPortOptions a = packet_options(true), b = packet_options(false);
    a.encapsulation = b.encapsulation = wire::Encapsulation::none;
    PacketRig rig(a, b, {});
    rig.add(1, 100, 2);
    CHECK(rig.send() == 1);
    rig.receive(1);
    REQUIRE(rig.arrived.size() == 1);
    CHECK(rig.arrived[0].facts.entropy == Ev{0x50002});
    CHECK(rig.receiver.notes().empty());  // the kernel was told to keep quiet
    // The peer's kernel, for which the packet was meant too, has not answered "port unreachable".
    shell(
        "test $(awk '$1 == \"Icmp6OutDestUnreachs\" { print $2 }' /proc/thread-self/net/snmp6) = "
        "0");
  });
}

/// Sends datagrams to a port of fd00::b.
class Asker {
 public:
  explicit Asker(std::uint16_t udp_port) : socket_(make_udp_socket({parse_ip("fd00::a"), {}})) {
    const SocketAddress to(parse_ip("fd00::b"), udp_port);
    REQUIRE(::connect(socket_.fd(), &to.any, to.length) == 0);
  }
  /// Sends one more. Returns whether one of those before was refused.
  [[nodiscard]] bool is_refused() const {
    const bool sent = ::send(socket_.fd(), "x", 1, 0) == 1;
    REQUIRE((sent || errno == ECONNREFUSED));
    return !sent;
  }

 private:
  Socket socket_;
};

/// Whether the kernel answers datagrams to that port with "port unreachable". On a busy host it
/// loses some of them, and some of its answers.
bool is_refused(std::uint16_t udp_port) {
  const Asker asker(udp_port), other(4800);  // which nobody has
  bool refused = false;
  int others = 0;
  REQUIRE(eventually([&] {
    refused = refused || asker.is_refused();
    others += other.is_refused() ? 1 : 0;
    return refused || others == 3;
  }));
  return refused;
}

TEST_CASE("packet port: the kernel does not answer plain IPv6 to its UDP ports") {
  on_veth([] {
    CHECK((is_refused(4791) && is_refused(4971)));
    for (const auto encapsulation : {wire::Encapsulation::none, wire::Encapsulation::srh}) {
      PacketPortOptions options = packet_options(false);
      options.encapsulation = encapsulation;
      const PacketPort port(options), of_another_process(options);
      CHECK((port.notes().empty() && of_another_process.notes().empty()));
      CHECK_FALSE(is_refused(4791));
      CHECK_FALSE(is_refused(4971));
    }
  });
  // Another program that has the port keeps the kernel quiet, too.
  on_veth([] {
    const Socket other = make_udp_socket({parse_ip("fd00::b"), {}});
    REQUIRE(try_bind(other, SocketAddress(parse_ip("fd00::b"), 4791)));
    const PacketPort port(packet_options(false));
    CHECK(port.notes().empty());
    CHECK_FALSE(is_refused(4971));
  });
}

TEST_CASE("packet port: a batch larger than a system call") {
  on_veth([] {
    PacketRig rig;
    for (std::uint32_t i = 0; i < 200; ++i)
      rig.add(i, 1000, static_cast<std::uint16_t>(i % kRoutes));
    CHECK(rig.send() == 200);
    rig.receive(200);
    REQUIRE(rig.arrived.size() == 200);
    for (std::uint32_t i = 0; i < 200; ++i) CHECK(PacketRig::number_of(rig.arrived[i]) == i);
    CHECK(rig.sender.stats().tx_calls == 4);
  });
}

TEST_CASE("packet port: what can't be sent is lost, the rest goes") {
  in_new_network([] {
    make_veth(1500);
    PacketRig rig;
    rig.add(0, 100, 0);
    rig.add(1, 4096, 1);       // too long
    rig.add(2, 100, kRoutes);  // no such path
    rig.add(3, 100, 2);
    CHECK(rig.send() == 4);
    rig.receive(2);
    REQUIRE(rig.arrived.size() == 2);
    CHECK(PacketRig::number_of(rig.arrived[1]) == 3);
    CHECK(rig.sender.stats().tx_errors == 2);
    CHECK(rig.sender.stats().tx_packets == 2);
  });
}

TEST_CASE("packet port: marks of the outer header count") {
  on_veth([] {
    PacketRig rig;
    FrameSender frames;
    auto frame = make_frame(make_envelope(), Qpn{7}, 100);
    frame[1] |= 0x30;  // CE outside, ECT(0) inside
    frames.send(frame);
    rig.receive(1);
    REQUIRE(rig.arrived.size() == 1);
    CHECK(rig.arrived[0].facts.ecn == Ecn::ce);
  });
}

TEST_CASE("packet port: trimmed packets come with the length that they had") {
  on_veth([] {
    PacketRig rig;
    FrameSender frames;
    const wire::DscpMap dscp;
    for (const bool last : {false, true}) {
      auto frame = make_frame(make_envelope(), Qpn{7}, 4096);
      frame.resize(
          wire::trim_packet(frame, wire::kTrimKeep, last ? dscp.trimmed_last_hop : dscp.trimmed));
      frames.send(frame);
    }
    rig.receive(2);
    REQUIRE(rig.arrived.size() == 2);
    CHECK(rig.arrived[0].facts.trim == wire::Trim::trimmed);
    CHECK(rig.arrived[1].facts.trim == wire::Trim::trimmed_last_hop);
    CHECK(rig.arrived[0].facts.udp_length == 8 + 32 + 4096 + 4);
    CHECK(rig.arrived[0].bytes.size() == wire::kTrimKeep - sizeof(wire::Udp));
  });
}

TEST_CASE("packet port: damaged, foreign and meaningless frames are counted") {
  on_veth([] {
    PacketRig rig;
    FrameSender frames;
    auto damaged = make_frame(make_envelope(), Qpn{7}, 100);
    damaged.back() ^= 1;
    frames.send(damaged);
    wire::Envelope other = make_envelope();
    other.destination = parse_ip("fd00::c");
    frames.send(make_frame(other, Qpn{7}, 100));
    auto opcode = make_frame(make_envelope(), Qpn{7}, 100);
    opcode[88] = 0;  // not an opcode of MRC
    frames.send(opcode);
    auto cut = make_frame(make_envelope(), Qpn{7}, 100);
    cut.resize(cut.size() - 10);
    frames.send(cut);
    wire::Envelope http = make_envelope();
    http.destination_port = 80;
    frames.send(make_frame(http, Qpn{7}, 100));  // not even seen
    wire::Envelope alternative = make_envelope();
    alternative.destination_port = wire::kUdpPortAlternative;
    frames.send(make_frame(alternative, Qpn{7}, 100));  // mrc-1.0 [C-1]
    rig.receive(1);
    CHECK(rig.arrived.size() == 1);
    CHECK(rig.bad_icrc == 1);
    CHECK(rig.receiver.stats().rx_foreign == 1);
    CHECK(rig.receiver.stats().rx_malformed == 2);
  });
}

TEST_CASE("packet port: any bytes behind the filter are safe") {
  on_veth([] {
    PacketRig rig;
    FrameSender frames;
    Random random(1);
    const auto good = make_frame(make_envelope(), Qpn{7}, 64);
    for (int i = 0; i < 3000; ++i) {
      auto frame = good;
      for (std::uint32_t n = random.below(6); n > 0; --n)
        frame[random.below(static_cast<std::uint32_t>(frame.size()))] =
            static_cast<std::uint8_t>(random.next());
      if (random.below(4) == 0)
        frame.resize(1 + random.below(static_cast<std::uint32_t>(frame.size())));
      frames.send(frame);
      rig.receive();
    }
    CHECK(rig.receiver.stats().rx_packets > 100);
    CHECK(rig.bad_icrc > 100);
    CHECK(rig.receiver.stats().rx_malformed > 100);
  });
}

TEST_CASE("packet port: each process gets the packets of its slot") {
  on_veth([] {
    PacketRig rig;
    PacketPortOptions other = packet_options(false);
    other.slot = 9;
    PacketPort second(other);
    rig.add(0, 10, 0, Ecn::ect0, Qpn{0x000007});
    rig.add(1, 10, 0, Ecn::ect0, Qpn{0x090007});
    rig.add(2, 10, 0, Ecn::ect0, Qpn{0x0a0007});
    CHECK(rig.send() == 3);
    rig.receive(1);
    CHECK(rig.arrived.size() == 1);
    RxBurst rx(8);
    second.receive(monotonic_now(), rx);
    REQUIRE(rx.packets().size() == 1);
    CHECK(wire::view_as<wire::Bth>(rx.packets()[0].bytes).dqp() == Qpn{0x090007});

    // Endpoint operations are for the host: every process gets them (mrc-1.0 §5).
    wire::EndpointRequestPacket request{
        wire::Bth::make(wire::Opcode::endpoint_request, kEndpointQpn, Psn{1}), {}};
    std::vector<std::uint8_t> frame(200);
    const Bytes header(reinterpret_cast<const std::uint8_t*>(&request), sizeof request);
    frame.resize(wire::build_packet(frame, make_envelope(), header, {}, 0));
    FrameSender().send(frame);
    rig.receive(2);
    CHECK(rig.arrived.size() == 2);
    rx.clear();
    second.receive(monotonic_now(), rx);
    CHECK(rx.packets().size() == 1);
  });
}

TEST_CASE("packet port: a link that goes down and comes back") {
  on_veth([] {
    PacketRig rig;
    // The kernel reports changes of links once a second, whatever their number.
    const auto await_link = [&] {
      CHECK(eventually([&] {
        rig.receive();
        rig.rx.clear();
        rig.sender.receive(PacketRig::now(), rig.rx);
        return rig.sender.link_up() && rig.receiver.link_up();
      }));
    };
    await_link();
    shell("ip link set pb down");
    // Other hosts of this machine may keep the kernel from looking at once.
    const auto await_loss_of_link = [&] {
      CHECK(eventually([&] {
        rig.rx.clear();
        rig.sender.receive(PacketRig::now(), rig.rx);
        return !rig.sender.link_up();
      }));
    };
    CHECK(readable(rig.sender.link_fd()));
    await_loss_of_link();
    rig.add(0, 10, 0);
    CHECK(rig.send() == 0);
    CHECK_FALSE(rig.sender.link_up());
    CHECK(rig.sender.stats().tx_errors == 1);
    shell("ip link set pb up");
    await_link();
    rig.add(1, 10, 0);
    CHECK(rig.send() == 1);
    rig.receive(1);
    CHECK(rig.arrived.size() == 1);

    // Removed altogether, as when the switch at the other end is replaced, and made again.
    shell("ip link del pa");
    await_loss_of_link();
    rig.add(2, 10, 0);
    CHECK(rig.send() == 0);
    CHECK_FALSE(rig.sender.link_up());
    make_veth();
    await_link();
    rig.add(3, 10, 0);
    CHECK(rig.send() == 1);
    rig.receive(2);
    REQUIRE(rig.arrived.size() == 2);
    CHECK(PacketRig::number_of(rig.arrived[1]) == 3);

    // Renamed while another one gets its name; then made again under another name.
    shell(
        "ip link set pa down; ip link set pa name nic9; ip link set nic9 up; "
        "ip link add pa type veth peer name px; ip link set pa up; " +
        mrc::test::await_carrier("nic9"));
    const auto sends_again = [&](std::uint32_t number) {
      await_link();
      rig.add(number, 10, 0);
      CHECK(rig.send() == 1);
      rig.receive(rig.arrived.size() + 1);
      CHECK(PacketRig::number_of(rig.arrived.back()) == number);
    };
    sends_again(4);
    shell("ip link del pa; ip link del nic9");
    await_loss_of_link();
    make_veth(9216, "first");
    sends_again(5);
  });
}

TEST_CASE("packet port: an interface that is not there yet") {
  in_new_network([] {
    shell("ip link set lo up");
    PacketPortOptions a = packet_options(true), b = packet_options(false);
    a.may_be_absent = b.may_be_absent = true;
    PacketRig rig(a, b, packet_routes());
    CHECK(!rig.sender.link_up());
    REQUIRE(rig.sender.notes().size() == 1);
    CHECK(
        mrc::test::contains(rig.sender.notes()[0], "there is no interface pa: this plane is down"));
    // Without encapsulation the UDP port of an address that is not there either is reserved.
    b.encapsulation = wire::Encapsulation::none;
    CHECK(PacketPort(b).notes().size() == 1);
    rig.add(0, 10, 0);
    CHECK(rig.send() == 0);
    make_veth();
    CHECK(eventually([&] {
      (void)rig.send();
      rig.PortRig::receive();
      return rig.sender.link_up() && rig.receiver.link_up();
    }));
    rig.add(1, 10, 0);
    CHECK(rig.send() == 1);
    rig.receive(1);
    CHECK(rig.arrived.size() == 1);
  });
}

TEST_CASE("packet port: the next hop is what routes and neighbours say") {
  on_veth([] {
    PacketPortOptions a = packet_options(true), b = packet_options(false);
    a.next_hop.reset();
    PacketPort sender(a), receiver(b);
    const auto note = [&] {
      return sender.await_route(PeerRoute(PacketPort::Route{receiver.address(), packet_routes()}),
                                std::chrono::milliseconds(20));
    };
    CHECK(mrc::test::contains(note(), "no route to fcbb:0:1000:2000:3000:: by interface pa"));
    shell("ip -6 route add fcbb::/32 via fe80::77 dev pa");
    CHECK(mrc::test::contains(note(), "fe80::77 by interface pa does not answer"));
    shell("ip neigh replace fe80::77 lladdr 02:00:00:00:00:0b dev pa nud permanent");
    CHECK(note().empty());
  });
}

TEST_CASE("packet port: what an operator should know is noted") {
  in_new_network([] {
    make_veth(1500);
    shell("echo 1 > /proc/sys/net/ipv6/conf/pb/forwarding");
    PacketPortOptions b = packet_options(false);
    b.mtu = 9216;
    const PacketPort port(b);
    REQUIRE(port.notes().size() == 2);
    CHECK(mrc::test::contains(port.notes()[0], "MTU of 1500, the fabric one of 9216"));
    CHECK(mrc::test::contains(port.notes()[1], "sysctl -w net.ipv6.conf.pb.forwarding=0"));
    PacketPortOptions a = packet_options(true);
    a.mtu = 1300;  // of a switch on the way
    CHECK(PacketPort(a).capabilities().max_packet == 1300 - 88);
  });
}

TEST_CASE("packet port: a next hop that changes is followed") {
  on_veth([] {
    shell(
        "ip -6 route add fcbb::/32 via fe80::77 dev pa && "
        "ip neigh add fe80::77 lladdr 02:00:00:00:00:0c dev pa nud permanent");
    PacketPortOptions a = packet_options(true), b = packet_options(false);
    a.next_hop.reset();
    b.next_hop = MacAddress{2, 0, 0, 0, 0, 0xa};
    PacketRig rig(a, b, packet_routes());
    rig.add(0, 10, 0);
    CHECK(rig.send() == 1);  // to somebody else
    shell("ip neigh replace fe80::77 lladdr 02:00:00:00:00:0b dev pa nud permanent");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    rig.add(1, 10, 0);
    CHECK(rig.send() == 1);
    rig.receive(1);
    REQUIRE(rig.arrived.size() == 1);
    CHECK(PacketRig::number_of(rig.arrived[0]) == 1);
    CHECK(rig.receiver.stats().rx_foreign == 1);
  });
}

TEST_CASE("packet port: the kernel checks on a next hop that grows old in use") {
  on_veth([] {
    shell("ip -6 route add fcbb::/32 via fe80::77 dev pa");
    const auto stale = [](const std::string& neighbour) {
      return std::system(("ip neigh show " + neighbour + " dev pa | grep -q STALE").c_str()) == 0;
    };
    const auto make_stale = [] {
      shell("ip neigh replace fe80::77 lladdr 02:00:00:00:00:0b dev pa nud stale");
    };
    make_stale();
    PacketPortOptions a = packet_options(true);
    a.next_hop.reset();
    PacketRig rig(a, packet_options(false), packet_routes());
    // A second one, which is known and not used.
    shell(
        "ip -6 route add fcbc::/32 via fe80::78 dev pa && "
        "ip neigh replace fe80::78 lladdr 02:00:00:00:00:0b dev pa nud stale");
    std::vector<PacketRoute> idle = packet_routes();
    for (PacketRoute& route : idle) route.destination = parse_ip("fcbc:0:1000:2000:3000::");
    rig.sender.add_peer(PeerId{6}, {{parse_ip("fd00::c"), 4791}, idle});
    std::uint32_t n = 0;
    const auto send = [&] {
      rig.add(n++, 10, 0);
      CHECK(rig.send() == 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    };
    CHECK(stale("fe80::77"));                                     // nothing was sent yet
    CHECK(eventually([&] { return !stale("fe80::77"); }, send));  // it looks around once a second
    CHECK(stale("fe80::78"));
    CHECK(rig.sender.stats().tx_errors == 0);  // meanwhile the old address does
  });
}

TEST_CASE("packet port: faults work as on UDP ports") {
  on_veth([] {
    PacketRig rig;
    faults_of(rig.sender).set_outbound(1, {.black_hole = true});
    for (std::uint32_t i = 0; i < 9; ++i) rig.add(i, 10, static_cast<std::uint16_t>(i % kRoutes));
    CHECK(rig.send() == 9);
    rig.receive(6);
    CHECK(rig.arrived.size() == 6);
    CHECK(rig.sender.stats().tx_packets == 9);
    faults_of(rig.sender).clear();
    rig.arrived.clear();
    faults_of(rig.receiver).set({.corrupt = 1});
    rig.add(0, 100, 0);
    CHECK(rig.send() == 1);
    CHECK(eventually([&] { return rig.bad_icrc == 1; }, [&] { rig.receive(); }));
    CHECK(rig.arrived.empty());
    faults_of(rig.receiver).clear();
    faults_of(rig.sender).set({.down = true});
    CHECK_FALSE(rig.sender.link_up());
    rig.add(0, 100, 0);
    CHECK(rig.send() == 0);
  });
}

TEST_CASE("packet port: opening fails with cause and remedy") {
  on_veth([] {
    PacketPortOptions options = packet_options(true);
    options.interface = "p7";
    CHECK_THROWS_WITH_AS(PacketPort{options}, doctest::Contains("there is no interface p7"), Error);
    options = packet_options(true);
    options.local = parse_ip("127.0.0.1");
    CHECK_THROWS_WITH_AS(PacketPort{options}, doctest::Contains("must be an IPv6 address"), Error);
    options = packet_options(true);
    options.paths.clear();
    CHECK_THROWS_WITH_AS(PacketPort{options}, doctest::Contains("has no paths"), Error);
    PacketRig rig;
    CHECK_THROWS_WITH_AS((void)rig.sender.add_peer(PeerId{1}, {{make_v4(10, 0, 0, 1), 4791}}),
                         doctest::Contains("no IPv6 address"), Error);

    // Without the right to open packet sockets, in this thread alone.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2]{};
    REQUIRE(syscall(SYS_capset, &header, none) == 0);
    CHECK_THROWS_WITH_AS(PacketPort{packet_options(true)},
                         doctest::Contains("setcap cap_net_raw+ep"), Error);
  });
}
