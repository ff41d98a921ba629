// SPDX-License-Identifier: Apache-2.0
// Requests to endpoints of hosts to which no queue pair need be connected.
#include <doctest/doctest.h>

#include <set>
#include <thread>
#include <vector>

#include "device/device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

/// Two devices that know nothing of each other. The first has the host's lowest slot, and answers.
struct Strangers {
  Side answering{test_config()}, asking{Pair::other(test_config())};

  /// One for each path of the asking device.
  [[nodiscard]] std::vector<EndpointRequest> requests() const {
    std::vector<EndpointRequest> out;
    for (const ProfileEv& ev : asking.device.own_evs()) {
      EndpointRequest& request = out.emplace_back();
      request.id = static_cast<std::uint16_t>(500 + out.size());
      request.source = asking.device.gid();
      request.destination = answering.device.gid();
      request.ev = ev;
    }
    return out;
  }
  std::vector<EndpointResponse> ask(const std::vector<EndpointRequest>& some,
                                    EndpointOperation operation = EndpointOperation::ev_probe,
                                    Duration timeout = kPatience) {
    return asking.device.request_endpoints(operation, some, timeout);
  }
};

Errc refusal(Device& device, const EndpointRequest& request, std::optional<unsigned> dscp = {}) {
  try {
    (void)device.request_endpoints(EndpointOperation::ev_probe, {&request, 1}, 1ms, dscp);
  } catch (const Error& error) {
    return error.code() == Errc::invalid_argument ? Errc::invalid_argument
           : error.code() == Errc::unsupported    ? Errc::unsupported
                                                  : Errc::unreachable;
  }
  return Errc::ok;
}

}  // namespace

TEST_CASE("endpoint requests: each path answers, to whom nobody is connected") {
  Strangers s;
  const std::vector<EndpointRequest> requests = s.requests();
  REQUIRE(requests.size() > 4);
  for (const auto operation : {EndpointOperation::ev_probe, EndpointOperation::port_status}) {
    const std::vector<EndpointResponse> responses = s.ask(requests, operation);
    REQUIRE(responses.size() == requests.size());
    std::set<std::uint16_t> ids;
    for (const EndpointResponse& response : responses) {
      ids.insert(response.id);
      CHECK(response.rtt > Duration(0));
      CHECK(response.plane + 1 == requests.at(response.id - 501u).ev.port);
    }
    CHECK(ids.size() == requests.size());
  }
  CHECK(s.answering.device.stats().unconnected_probes_answered == 2 * requests.size());
  // Without a path, any of the plane of the source.
  EndpointRequest plain = requests.front();
  plain.ev = {};
  CHECK(s.ask({plain}).size() == 1);
  // Nobody believes what a stranger says of ports.
  CHECK(s.answering.device.stats().engine.port_updates_received == 0);
}

TEST_CASE("endpoint requests: who does not answer is missing when the time is over") {
  Strangers s;
  std::vector<EndpointRequest> requests = s.requests();
  requests[1].destination = port::parse_ip("::ffff:127.0.0.99");
  const Time begin = monotonic_now();
  const auto responses = s.ask(requests, EndpointOperation::ev_probe, 300ms);
  CHECK(monotonic_now() - begin >= 300ms);
  CHECK(responses.size() == requests.size() - 1);
  for (const EndpointResponse& response : responses) CHECK(response.id != requests[1].id);
  CHECK(s.ask({}).empty());
}

TEST_CASE("endpoint requests: a disabled plane carries none") {
  Strangers s;
  s.asking.device.set_plane_enabled(1, false);
  const std::vector<EndpointRequest> requests = s.requests();
  const auto responses = s.ask(requests, EndpointOperation::ev_probe, 200ms);
  CHECK(responses.size() == requests.size() / 2);
  for (const EndpointResponse& response : responses) CHECK(response.plane == 0);
}

TEST_CASE("endpoint requests: batches of several threads get their own answers") {
  Strangers s;
  const std::vector<EndpointRequest> requests = s.requests();
  std::vector<std::thread> threads;
  std::atomic<int> whole{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i)
        if (s.ask(requests).size() == requests.size()) ++whole;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(whole == 20);
}

TEST_CASE("endpoint requests: there are only so many answers") {
  Strangers s;
  EndpointRequest request = s.requests().front();
  std::vector<EndpointRequest> flood;
  for (unsigned i = 0; i < 20'000; ++i) {
    request.id = static_cast<std::uint16_t>(i);
    flood.push_back(request);
  }
  const Time begin = monotonic_now();
  const std::size_t answers = s.ask(flood, EndpointOperation::ev_probe, 300ms).size();
  const double seconds = std::chrono::duration<double>(monotonic_now() - begin).count();
  CHECK(answers > 0);
  CHECK(answers <= 512 + 10'000 * seconds);
  // And the device lives.
  CHECK(s.answering.device.stats().unconnected_probes_refused > 0);
}

TEST_CASE("endpoint requests: what is refused") {
  Strangers s;
  Device& device = s.asking.device;
  const EndpointRequest good = s.requests().front();
  CHECK(refusal(device, good) == Errc::ok);
  CHECK(refusal(device, good, 63) == Errc::ok);
  CHECK(refusal(device, good, 64) == Errc::invalid_argument);
  EndpointRequest bad = good;
  bad.source = port::parse_ip("192.0.2.1");
  CHECK(refusal(device, bad) == Errc::invalid_argument);
  bad = good;
  bad.ev.port = 3;
  CHECK(refusal(device, bad) == Errc::invalid_argument);
  bad = good;
  bad.ev.value[0] ^= 0xFF;
  CHECK(refusal(device, bad) == Errc::unsupported);
  bad = good;
  bad.mode = path::EvMode::srv6;
  CHECK(refusal(device, bad) == Errc::unsupported);
  bad = good;
  bad.destination = port::parse_ip("2001:db8::1");
  CHECK(refusal(device, bad) == Errc::unreachable);
  const std::vector<EndpointRequest> twice{good, good};
  CHECK_THROWS_AS((void)s.ask(twice), Error);
  CHECK_THROWS_AS((void)s.ask(std::vector<EndpointRequest>(32'769)), Error);
}
