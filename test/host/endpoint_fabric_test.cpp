// SPDX-License-Identifier: Apache-2.0
// EV probes and port status that a program sends to the hosts of a fabric, over packet ports.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "device/device_rig.hpp"
#include "device/fabric_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

Config host_config(const DescriptionFile& file, const std::string& host) {
  Config config = file.config();
  config.host = host;
  config.log = LogLevel::off;
  return config;
}

EndpointRequest request(std::uint16_t id, const std::string& to = "fd00:1::2") {
  EndpointRequest r;
  r.id = id;
  r.source = port::parse_ip("fd00:1::1");
  r.destination = port::parse_ip(to);
  return r;
}

}  // namespace

TEST_CASE("endpoint requests: hosts of a fabric, by any path that its packets can have") {
  in_new_network([] {
    make_neighbours();
    const DescriptionFile file(kNeighbours);
    Device a(host_config(file, "h0")), b(host_config(file, "h1"));
    std::vector<EndpointRequest> requests = {request(1)};
    EndpointRequest by_ev = request(2);  // the host's address in the EV's plane is known
    by_ev.mode = path::EvMode::stev;
    by_ev.ev.port = 2;
    path::put_bits(by_ev.ev.value, 0, 32, 0x1234C0DE);
    requests.push_back(by_ev);
    for (const auto operation : {EndpointOperation::ev_probe, EndpointOperation::port_status}) {
      const auto responses = a.request_endpoints(operation, requests, kPatience);
      REQUIRE(responses.size() == 2);
      for (const EndpointResponse& r : responses) CHECK(r.plane == (r.id == 2 ? 1 : 0));
    }
    CHECK(b.stats().unconnected_probes_answered == 4);
    const auto fails = [&](const EndpointRequest& r, Errc code) {
      try {
        (void)a.request_endpoints(EndpointOperation::ev_probe, {&r, 1}, kPatience);
        FAIL_CHECK("no error");
      } catch (const Error& error) {
        CHECK(error.code() == make_error_code(code));
      }
    };
    by_ev.mode = path::EvMode::srv6;
    fails(by_ev, Errc::unsupported);
    fails(request(3, "fd00:1::77"), Errc::unreachable);
  });
}
