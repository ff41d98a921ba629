// SPDX-License-Identifier: Apache-2.0
// UDP ports answer EV probes and port status of hosts to which no queue pair is connected.
#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "device/device_rig.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/udp/udp_port.hpp"
#include "mrc/plane/udp/udp_responder.hpp"
#include "mrc/wire/transport.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

constexpr std::uint16_t kTimestamp = 0x4711;

/// A stranger: a port of its own, no device.
struct Stranger {
  explicit Stranger(const std::string& address, std::uint8_t slot = 0)
      : port(options(address, slot)) {}

  static port::UdpPortOptions options(const std::string& address, std::uint8_t slot) {
    port::UdpPortOptions o;
    o.local = port::parse_local_address(address);
    o.base_port = 21000;
    o.slot = slot;
    o.paths = 4;
    return o;
  }
  void ask(const std::string& whom, wire::EndpointOp op, std::uint16_t id, std::uint8_t slot = 0) {
    wire::EndpointRequestPacket p{
        wire::Bth::make(wire::Opcode::endpoint_request, kEndpointQpn, Psn{id}), {}};
    p.erth.set_op(op);
    p.erth.set_vendor_info(slot);
    p.erth.set_port_status_mask(1);
    p.erth.set_tx_timestamp(kTimestamp);
    (void)port.add_peer(PeerId{0}, port::UdpPort::Route({port::parse_ip(whom), 21000}));
    wire::TxPacket& packet = (burst.clear(), burst.append());
    std::memcpy(packet.header.data(), &p, sizeof p);
    packet.header_length = sizeof p;
    packet.dscp = 0;
    packet.ecn = Ecn::not_ect;
    packet.peer = PeerId{0};
    packet.plane = 0;
    packet.port_path = 1;
    packet.entropy = port.paths()[1].ev;
    burst.commit();
    REQUIRE(port.transmit(monotonic_now(), burst, burst.groups()) == 1);
  }
  /// What has arrived since the last call.
  std::vector<wire::EndpointResponsePacket> answers() {
    std::vector<wire::EndpointResponsePacket> all;
    for (;;) {
      rx.clear();
      port.receive(monotonic_now(), rx);
      if (rx.empty()) return all;
      for (const wire::RxPacket& packet : rx.packets()) {
        CHECK(packet.check == 0);
        REQUIRE(wire::check(packet.bytes) == wire::ParseError::none);
        const auto& p = wire::view_as<wire::EndpointResponsePacket>(packet.bytes);
        CHECK(p.bth.opcode() == wire::Opcode::endpoint_response);
        CHECK(p.bth.dqp() == kEndpointQpn);
        CHECK(p.eeth.tx_timestamp() == kTimestamp);
        all.push_back(p);
      }
    }
  }

  port::UdpPort port;
  wire::TxBurst burst{1, 1};
  port::RxBurst rx{64};
};

Config quiet_config(const std::string& planes) {
  Config config = test_config(planes);
  config.helper = false;  // each round is the test's
  return config;
}

TEST_CASE("strangers: a UDP device answers EV probes and port status, to the slot that asks") {
  Device device(quiet_config("127.0.7.1"));
  Stranger stranger("127.0.7.2"), second("127.0.7.2", 3);
  stranger.ask("127.0.7.1", wire::EndpointOp::ev_probe, 7);
  stranger.ask("127.0.7.1", wire::EndpointOp::port_status, 8);
  stranger.ask("127.0.7.1", wire::EndpointOp::ev_probe, 9, 3);
  while (device.progress()) {
  }
  const auto answers = stranger.answers();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].bth.psn() == Psn{7});
  CHECK(answers[0].eeth.op() == wire::EndpointOp::ev_probe);
  CHECK(answers[1].bth.psn() == Psn{8});
  CHECK(answers[1].eeth.op() == wire::EndpointOp::port_status);
  const auto others = second.answers();
  REQUIRE(others.size() == 1);
  CHECK(others[0].bth.psn() == Psn{9});
  const DeviceStats stats = device.stats();
  CHECK(stats.unconnected_probes_answered == 3);
  CHECK(stats.unconnected_probes_refused == 0);
  CHECK(stats.peers == 0);
}

TEST_CASE("strangers: a host that option peers_allowed leaves out gets no answer") {
  Config config = quiet_config("127.0.7.1");
  config.peers_allowed = "127.0.8.0/24";
  Device device(config);
  Stranger stranger("127.0.7.2"), friendly("127.0.8.2");
  stranger.ask("127.0.7.1", wire::EndpointOp::ev_probe, 7);
  friendly.ask("127.0.7.1", wire::EndpointOp::ev_probe, 7);
  while (device.progress()) {
  }
  CHECK(stranger.answers().empty());
  CHECK(friendly.answers().size() == 1);
  CHECK(device.stats().unconnected_probes_refused == 1);
  CHECK(device.stats().peers_refused == 0);
}

TEST_CASE("strangers: nor does anybody in a disabled plane") {
  Device device(quiet_config("127.0.7.1"));
  Stranger stranger("127.0.7.2");
  device.set_plane_enabled(0, false);
  stranger.ask("127.0.7.1", wire::EndpointOp::ev_probe, 7);
  while (device.progress()) {
  }
  CHECK(stranger.answers().empty());
  CHECK(device.stats().unconnected_probes_answered == 0);
  CHECK(device.stats().planes[0].rx_disabled == 1);
}

TEST_CASE("strangers: so many answers per host, and in all, however many ask") {
  using detail::StrangerLimits;
  port::UdpPort port(Stranger::options("127.0.7.1", 0));
  detail::UdpResponder responder(AllowedPeers(), SipKey{1, 2}, PeerId{1}, 0);
  const auto answered = [&](const std::string& from, Time now, int requests) {
    std::uint32_t n = 0;
    wire::UnconnectedRequest request;
    request.from = port::parse_ip(from);
    for (; requests > 0; --requests) n += responder.answer(now, request, 9, port);
    return n;
  };
  CHECK(answered("127.0.7.2", Time{1s}, 2000) == StrangerLimits::kBurstPerHost);
  CHECK(answered("127.0.7.2", Time{1s} + 10ms, 2000) == StrangerLimits::kAnswersPerHost / 100);
  std::uint32_t all = 0;
  for (int host = 1; host < 200; ++host)
    all += answered("127.0.9." + std::to_string(host), Time{9s}, 30);
  CHECK(all == StrangerLimits::kBurst);
  wire::UnconnectedRequest nowhere;  // the port can't say from where
  CHECK(!responder.answer(Time{20s}, nowhere, 9, port));
}

}  // namespace
