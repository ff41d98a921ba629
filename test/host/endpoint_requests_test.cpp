// SPDX-License-Identifier: Apache-2.0
// EV probes and port status that a program sends to any host: over UDP ports, which answer those of
// any host, and in a fabric.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/fabric_rig.hpp"
#include "device/profiles_rig.hpp"
#include "mrc/plane/udp_port.hpp"

using namespace mrc;
using namespace mrc::test;

namespace endpoint_requests_test {

constexpr auto kProbe = EndpointOperation::ev_probe;

/// A host with two planes, 127.0.<net>.1 and .2; IPv4 is told by the mapped address.
struct Host {
  explicit Host(int net, bool helper = true) : device(config(net, helper)) {}
  static Config config(int net, bool helper = true) {
    Config config = test_config();
    config.planes = {address(net, 0), address(net, 1)};
    config.seed = static_cast<std::uint64_t>(net);
    config.helper = helper;
    return config;
  }
  static std::string address(int net, unsigned plane) {
    return "127.0." + std::to_string(net) + "." + std::to_string(plane + 1);
  }
  Device device;
};

/// From plane to the same plane of another host.
EndpointRequest request(std::uint16_t id, int from, int to, unsigned plane = 0) {
  EndpointRequest r;
  r.id = id;
  r.source = port::parse_ip(Host::address(from, plane));
  r.destination = port::parse_ip(Host::address(to, plane));
  return r;
}

std::uint64_t answered(const Device& device) {
  return device.stats().unconnected_probes_answered;
}

/// Those requests are refused, for that reason.
void refused(Device& device, const std::vector<EndpointRequest>& requests, Errc code,
             const std::string& text, std::optional<unsigned> dscp = {}) {
  CAPTURE(text);
  try {
    (void)device.request_endpoints(kProbe, requests, kPatience, dscp);
    FAIL_CHECK("no error");
  } catch (const Error& error) {
    CHECK(error.code() == make_error_code(code));
    CHECK(contains(error.what(), text));
  }
}

TEST_CASE("endpoint requests: EV probes and port status to a host without a queue pair") {
  Host a(7), b(8), c(9);
  for (const auto operation : {kProbe, EndpointOperation::port_status}) {
    const std::uint64_t before = answered(b.device) + answered(c.device);
    std::vector<EndpointRequest> requests = {request(500, 7, 8), request(3, 7, 8, 1),
                                             request(65'535, 7, 9)};
    for (EndpointRequest& r : requests) r.port_status = 0b01;
    const auto responses = a.device.request_endpoints(operation, requests, kPatience);
    REQUIRE(responses.size() == 3);
    std::set<std::uint16_t> ids;
    for (const EndpointResponse& response : responses) {
      ids.insert(response.id);
      CHECK(response.plane == (response.id == 3 ? 1 : 0));
      CHECK(response.rtt > Duration{});
      CHECK(response.rtt < kPatience);
    }
    CHECK(ids == std::set<std::uint16_t>{3, 500, 65'535});
    CHECK(answered(b.device) + answered(c.device) == before + 3);
  }
  CHECK(a.device.stats().peers == 0);
  CHECK(a.device.stats().engine.drops.stale == 0);
  CHECK(a.device.request_endpoints(kProbe, {}, kPatience).empty());
}

TEST_CASE("endpoint requests: by a certain path, as far as the port has it") {
  Host a(7), b(8), c(9);
  Side side(Host::config(7));  // another process of a's host, to see its paths
  Side peer(Host::config(9));
  connect(side.add_qp(), peer.add_qp());
  const std::vector<PathReport> paths = side.device.paths(side.qps[0]);
  REQUIRE(!paths.empty());
  std::vector<EndpointRequest> requests;
  for (const PathReport& path : paths) {
    EndpointRequest r = request(static_cast<std::uint16_t>(requests.size()), 7, 8, path.plane);
    r.source = port::parse_ip(Host::address(7, 0));  // the EV says the plane
    r.mode = path::EvMode::udp;
    path::put_bits(r.ev.value, 0, 16, value(path.ev) & 0xFFFF);
    r.ev.port = static_cast<std::uint8_t>(path.plane + 1);
    requests.push_back(r);
  }
  const auto responses = side.device.request_endpoints(kProbe, requests, kPatience, 4);
  REQUIRE(responses.size() == requests.size());
  for (const EndpointResponse& r : responses) CHECK(r.plane == paths[r.id].plane);
  EndpointRequest strange = requests[0];
  path::EvValue& bits = strange.ev.value;
  bits = {};
  path::put_bits(bits, 0, 16, 1);  // a privileged source port
  refused(side.device, {strange}, Errc::unsupported, "is none of UDP plane");
  strange.mode = path::EvMode::srv6;
  refused(side.device, {strange}, Errc::unsupported, "do not encapsulate");
  strange = requests[0];
  strange.ev.value[20] = 1;
  refused(side.device, {strange}, Errc::invalid_argument, "more bits than its mode");
}

TEST_CASE("endpoint requests: mistakes are named, and nothing is sent") {
  Host a(7), b(8);
  const auto fails = [&](std::vector<EndpointRequest> requests, Errc code, const std::string& text,
                         std::optional<unsigned> dscp = {}) {
    requests.insert(requests.begin(), request(1, 7, 8));
    refused(a.device, requests, code, text, dscp);
  };
  fails({request(1, 7, 8)}, Errc::invalid_argument, "endpoint request 1: its ID is in the batch");
  fails({request(2, 8, 8)}, Errc::invalid_argument, "is no address of this device");
  EndpointRequest r = request(2, 7, 8);
  r.ev.port = 3;
  fails({r}, Errc::invalid_argument, "endpoint request 2: its EV leaves by port 3");
  r.ev.port = 0;
  r.ev.value[0] = 1;
  fails({r}, Errc::invalid_argument, "no port that it leaves by");
  r = request(2, 7, 8);
  r.destination = port::parse_ip("fd00::1");
  fails({r}, Errc::unreachable, "no plane of this device has its IP version");
  fails({}, Errc::invalid_argument, "DSCP 64", 64);
  fails({}, Errc::invalid_argument, "has trimmed a packet", 12);
  for (const PlaneStats& plane : a.device.stats().planes) CHECK(plane.port.tx_packets == 0);

  Config config = Host::config(10);
  config.peers_allowed = "127.0.9.0/24";
  Device choosy(config);
  r = request(2, 10, 8);
  refused(choosy, {r}, Errc::unreachable, "peers_allowed");
  // Planes that can't ask strangers.
  Device memory(test_config(),
                std::make_unique<MemoryKind>(std::make_shared<MemoryNetwork>(), std::uint8_t{1}));
  refused(memory, {r}, Errc::unsupported, "");
}

TEST_CASE("endpoint requests: who does not answer is not waited for after the time is over") {
  Host a(7), b(8);
  const EndpointRequest requests[] = {request(1, 7, 99), request(2, 7, 8)};
  const auto responses = a.device.request_endpoints(kProbe, requests, 3s);
  REQUIRE(responses.size() == 1);
  CHECK(responses[0].id == 2);
  CHECK(a.device.request_endpoints(kProbe, {requests, 1}, Duration{}).empty());
  b.device.set_plane_enabled(0, false);
  CHECK(a.device.request_endpoints(kProbe, requests, 50ms).empty());
  CHECK(b.device.stats().planes[0].rx_disabled > 0);
  CHECK(answered(b.device) == 1);
  // In a plane that is down here nothing is sent, and nothing awaited.
  b.device.set_plane_enabled(0, true);
  a.device.set_plane_enabled(0, false);
  const std::uint64_t sent = a.device.stats().planes[0].port.tx_packets;
  CHECK(a.device.request_endpoints(kProbe, {requests + 1, 1}, kPatience).empty());
  CHECK(a.device.stats().planes[0].port.tx_packets == sent);
}

TEST_CASE(
    "endpoint requests: more than are sent at once, also without helpers and by two threads") {
  for (const bool helper : {true, false}) {
    CAPTURE(helper);
    Host a(7, helper), b(8), c(9);
    std::vector<EndpointRequest> to_b, to_c;
    for (std::uint16_t id = 0; id < 400; ++id) {
      to_b.push_back(request(id, 7, 8, id % 2));
      to_c.push_back(request(id, 7, 9, id % 2));
    }
    std::vector<EndpointResponse> from_b, from_c;
    std::thread other([&] { from_b = a.device.request_endpoints(kProbe, to_b, kPatience); });
    from_c = a.device.request_endpoints(kProbe, to_c, kPatience);
    other.join();
    CHECK(from_b.size() == to_b.size());
    CHECK(from_c.size() == to_c.size());
    CHECK(answered(b.device) == 400);
    CHECK(answered(c.device) == 400);
  }
}

TEST_CASE("endpoint requests: connected hosts answer, too, and their queue pairs go on") {
  Pair pair(Host::config(7), Host::config(8));
  pair.copy_all();
  EndpointRequest requests[] = {request(1, 7, 8), request(2, 7, 8, 1)};
  for (EndpointRequest& r : requests) r.port_status = 0b01;
  for (const auto operation : {kProbe, EndpointOperation::port_status})
    CHECK(pair.a.device.request_endpoints(operation, requests, kPatience).size() == 2);
  // Nobody but the connection's own packets says that a plane is down.
  CHECK(pair.b.device.stats().engine.port_updates_received == 0);
  pair.copy_all();
  CHECK(pair.a.qps[0].state() == QpState::rts);
}

TEST_CASE("endpoint requests: a device of several lanes asks and is asked once") {
  Config several = Host::config(7);
  several.lanes = 3;
  Device a(several);
  several.planes = Host::config(8).planes;
  Device b(several);
  const EndpointRequest requests[] = {request(1, 7, 8), request(2, 7, 8, 1)};
  CHECK(a.request_endpoints(kProbe, requests, kPatience).size() == 2);
  CHECK(answered(b) == 2);
}

TEST_CASE("endpoint requests: a host that option peers_allowed leaves out gets no answer") {
  Config config = Host::config(8);
  config.peers_allowed = "127.0.9.0/24";
  Device device(config);
  Host stranger(7), friendly(9);
  const EndpointRequest requests[] = {request(7, 7, 8), request(7, 9, 8)};
  CHECK(stranger.device.request_endpoints(kProbe, {requests, 1}, 50ms).empty());
  CHECK(friendly.device.request_endpoints(kProbe, {requests + 1, 1}, kPatience).size() == 1);
  CHECK(device.stats().unconnected_probes_refused == 1);
  CHECK(answered(device) == 1);
  CHECK(device.stats().peers_refused == 0);
}

TEST_CASE("strangers: so many answers per host, and in all, however many ask") {
  using detail::StrangerLimits;
  port::UdpPortOptions options;
  options.local = port::parse_local_address("127.0.7.1");
  options.base_port = 21000;
  options.paths = 4;
  port::UdpPort port(options);
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

TEST_CASE("endpoint requests: hosts of a fabric, by any path that its packets can have") {
  in_new_network([] {
    make_neighbours();
    const DescriptionFile file(kNeighbours);
    const auto config = [&](const char* host) {
      Config c = file.config();
      c.host = host;
      c.log = LogLevel::off;
      return c;
    };
    const auto in_fabric = [](std::uint16_t id, const char* to = "fd00:1::2") {
      EndpointRequest r;
      r.id = id;
      r.source = port::parse_ip("fd00:1::1");
      r.destination = port::parse_ip(to);
      return r;
    };
    Device a(config("h0")), b(config("h1"));
    std::vector<EndpointRequest> requests = {in_fabric(1)};
    EndpointRequest by_ev = in_fabric(2);  // the host's address in the EV's plane is known
    by_ev.mode = path::EvMode::stev;
    by_ev.ev.port = 2;
    path::put_bits(by_ev.ev.value, 0, 32, 0x1234C0DE);
    requests.push_back(by_ev);
    for (const auto operation : {EndpointOperation::ev_probe, EndpointOperation::port_status}) {
      const auto responses = a.request_endpoints(operation, requests, kPatience);
      REQUIRE(responses.size() == 2);
      for (const EndpointResponse& r : responses) CHECK(r.plane == (r.id == 2 ? 1 : 0));
    }
    CHECK(answered(b) == 4);
    by_ev.mode = path::EvMode::srv6;
    refused(a, {by_ev}, Errc::unsupported, "");
    refused(a, {in_fabric(3, "fd00:1::77")}, Errc::unreachable, "");
  });
}

}  // namespace endpoint_requests_test
