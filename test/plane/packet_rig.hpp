// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "mrc/fabric/packet.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/fabric/packet_port.hpp"
#include "mrc/wire/transport.hpp"
#include "plane/port_rig.hpp"
#include "support/network.hpp"

/// Two PacketPorts at the ends of a veth pair, and packets between them.
namespace mrc::port::test {

inline constexpr std::uint16_t kRoutes = 3;

/// Makes the pair, in a network namespace of the caller's own.
inline void make_veth(unsigned mtu = 9216, const std::string& first = "pa") {
  const std::string size = std::to_string(mtu);
  mrc::test::shell(
      "ip link set lo up; echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad; "
      "ip link add " +
      first + " mtu " + size + " address 02:00:00:00:00:0a type veth peer name pb mtu " + size +
      " address 02:00:00:00:00:0b && ip link set " + first +
      " up && ip link set pb up && ip addr add fd00::a/128 dev " + first +
      " nodad && ip addr add fd00::b/128 dev pb nodad && " +
      mrc::test::await_carrier(first + " pb"));
}

/// Runs `body` in a network of its own that has the pair, or skips the test case.
template <class Body>
void on_veth(const Body& body) {
  mrc::test::in_new_network([&] {
    make_veth();
    body();
  });
}

inline PacketPortOptions packet_options(bool first) {
  PacketPortOptions options;
  options.interface = first ? "pa" : "pb";
  options.local = parse_ip(first ? "fd00::a" : "fd00::b");
  options.next_hop = MacAddress{2, 0, 0, 0, 0, static_cast<std::uint8_t>(first ? 0xb : 0xa)};
  for (std::uint16_t i = 0; i < kRoutes; ++i) options.paths.push_back({Ev{0x50000u + i}, i});
  return options;
}

/// The outer headers of the paths.
inline std::vector<PacketRoute> packet_routes(bool srh = false) {
  std::vector<PacketRoute> routes;
  for (unsigned i = 0; i < kRoutes; ++i) {
    PacketRoute route;
    route.destination = parse_ip("fcbb:0:1000:200" + std::to_string(i) + ":3000::");
    if (srh) route.segment = parse_ip("fcbb:0:3001::");
    route.has_srh = srh;
    routes.push_back(route);
  }
  return routes;
}

struct PacketRig : PortRig<PacketPort> {
  PacketRig(const PacketPortOptions& a, const PacketPortOptions& b, std::vector<PacketRoute> routes)
      : PacketRig(PacketPort(a), PacketPort(b), std::move(routes)) {}
  PacketRig(PacketPort a, PacketPort b, std::vector<PacketRoute> routes)
      : PortRig(std::move(a), std::move(b)) {
    tag = receiver.add_peer(PeerId{0}, {sender.address()});
    sender.add_peer(PeerId{5}, {receiver.address(), std::move(routes)});
  }
  explicit PacketRig(std::vector<PacketRoute> routes = packet_routes())
      : PacketRig(packet_options(true), packet_options(false), std::move(routes)) {}

  /// Puts one packet into the burst: a write with the number as PSN, and payload in two SGEs.
  void add(std::uint32_t number, std::size_t payload, std::uint16_t path, Ecn ecn = Ecn::ect0,
           Qpn to = Qpn{7}) {
    std::array<std::uint8_t, sizeof(wire::Bth) + sizeof(wire::Meth) + sizeof(wire::Reth)> header{};
    auto bth = wire::Bth::make(wire::Opcode::write_only, to, Psn{number});
    bth.set_pad(pad_of(payload));
    std::memcpy(header.data(), &bth, sizeof bth);
    append(header, number, payload, path, ecn, 4, Ev{0x50000u + path});
  }
  std::uint32_t send() { return send_at_once(); }

  using PortRig::receive;
  /// A veth pair delivers within the send call, or soon after by a soft interrupt: waits for
  /// `expected` packets.
  void receive(std::size_t expected) {
    CHECK(eventually([&] { return arrived.size() >= expected; }, [&] { receive(); }));
    receive();
  }
  /// The payload of an arrived packet.
  [[nodiscard]] static std::vector<std::uint8_t> payload(const Arrived& a) {
    const wire::WriteView view = wire::view_write(a.bytes);
    return {view.payload.begin(), view.payload.end()};
  }
};

/// Sends frames as they are, from the sender's end.
class FrameSender {
 public:
  FrameSender() : socket_(open_packet_socket()) {
    REQUIRE(bind_packet_socket(socket_, look_up_interface(socket_, "pa").index, 0));
  }
  /// Puts an Ethernet header in front.
  void send(Bytes packet) {
    std::vector<std::uint8_t> frame{2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 0x86, 0xDD};
    frame.insert(frame.end(), packet.begin(), packet.end());
    CHECK(::send(socket_.fd(), frame.data(), frame.size(), 0) ==
          static_cast<ssize_t>(frame.size()));
  }

 private:
  Socket socket_;
};

/// A packet as the sender of a rig would make it.
inline std::vector<std::uint8_t> make_frame(const wire::Envelope& e, Qpn to, std::size_t payload) {
  std::vector<std::uint8_t> header(sizeof(wire::Bth) + sizeof(wire::Meth) + sizeof(wire::Reth));
  const auto bth = wire::Bth::make(wire::Opcode::write_only, to, Psn{1});
  std::memcpy(header.data(), &bth, sizeof bth);
  const auto data = payload_of(1, payload);
  const wire::TxSge sge{data.data(), static_cast<std::uint32_t>(data.size())};
  std::vector<std::uint8_t> frame(wire::kMaxEnvelope + header.size() + payload + 8);
  frame.resize(wire::build_packet(frame, e, header, std::span(&sge, 1), 0));
  REQUIRE(!frame.empty());
  return frame;
}
inline wire::Envelope make_envelope() {
  wire::Envelope e;
  e.source = e.outer_source = parse_ip("fd00::a");
  e.destination = parse_ip("fd00::b");
  e.encapsulation = wire::Encapsulation::ipv6_in_ipv6;
  e.outer_destination = parse_ip("fcbb:0:3000::");
  e.source_port = 1;
  e.flow_label = 5;
  e.dscp = 4;
  e.ecn = Ecn::ect0;
  return e;
}

}  // namespace mrc::port::test
