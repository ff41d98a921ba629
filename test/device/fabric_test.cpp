// SPDX-License-Identifier: Apache-2.0
// Devices over packet ports, as a fabric description makes them: what goes wrong when they open.
// How they run is tested over whole fabrics (test/process/srv6_*_test.sh).
#include <doctest/doctest.h>

#include <unistd.h>

#include <string>

#include "fabric_rig.hpp"
#include "mrc/mrc.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::test;
using mrc::test::contains;
using mrc::test::in_new_network;
using mrc::test::shell;

namespace fabric_test {

/// What opening a device says; "no error" if it works.
std::string open_error(const Config& config) {
  return mrc::test::error_of([&] { const Device device(config); });
}

constexpr const char* kTwoHosts = "{\n \"name\": \"x\", \"planes\": 2, \"hosts\": 2\n}";

/// Host h0 of kTwoHosts, in a network namespace of the caller's own.
void make_host() {
  shell(
      "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad; ip link set lo up; for p in 0 1; do "
      "ip link add p$p type veth peer name q$p && ip link set p$p mtu 9216 up && "
      "ip link set q$p mtu 9216 up && ip addr add fd00:$((p + 1))::1/128 dev p$p nodad; done");
}

TEST_CASE("fabric: a description that is wrong is told by file, line and field") {
  const DescriptionFile file("{\n  \"planes\": 2,\n  \"host\": 2\n}");
  const std::string text = open_error(file.config());
  CHECK(contains(text, ".json:3: host: unknown field; did you mean \"hosts\"?"));
}

TEST_CASE("fabric: a file that is not there is told by name") {
  Config config;
  const std::string text = mrc::test::error_of([&] { config.set("fabric", "/nowhere/f.json"); });
  CHECK(contains(text, "/nowhere/f.json"));
  CHECK(contains(text, "docs/fabric.md"));
}

TEST_CASE("fabric: a machine that is none of the hosts") {
  in_new_network([] {
    shell("ip link set lo up");
    const DescriptionFile file(kTwoHosts);
    CHECK(contains(open_error(file.config()), "no host has an address on this machine"));
    Config config = file.config();
    config.host = "h7";
    CHECK(contains(open_error(config), "has no host 'h7', only h0, h1"));
  });
}

TEST_CASE("fabric: a device is what the description says") {
  in_new_network([] {
    make_host();
    const DescriptionFile file(
        R"({ "planes": 2, "hosts": 2, "link_speed": 25, "base_rtt": "30us", "mtu": 9216,
             "dscp": { "control": 40 } })");
    Config config = file.config();
    Device device(config);
    CHECK(device.plane_count() == 2);
    CHECK(device.plane_names() == std::vector<std::string>{"[fd00:1::1]:4791", "[fd00:2::1]:4791"});
    CHECK(device.config().cc_link_speed == 50);
    CHECK(device.config().cc_base_rtt == std::chrono::microseconds(30));
    CHECK(device.config().expert.dscp_control == 40);
    config.cc_link_speed = 7;  // an option that was set stays
    CHECK(Device(config).config().cc_link_speed == 7);
  });
}

TEST_CASE("fabric: an interface that is missing, and a peer that is no host") {
  in_new_network([] {
    make_host();
    const DescriptionFile file(kTwoHosts);
    {
      Device device(file.config());
      const CompletionQueue cq = device.create_cq(8);
      QpOptions options;
      options.send_cq = &cq;
      QueuePair qp = device.create_qp(options);
      ConnectionInfo peer = qp.local_info();
      CHECK(peer.trim_nack);  // packet ports see what switches have trimmed
      peer.device_guid ^= 1;
      for (auto& plane : peer.planes) plane.ip[15] = 9;
      const std::string text = mrc::test::error_of([&] { qp.connect(peer); });
      CHECK(contains(text, "has address fd00:1::9 in plane 0"));
      CHECK(contains(text, "add the peer to it"));
    }
    shell("ip link del p1");
    Device device(file.config());  // the other plane does
    const std::vector<PlaneStats> planes = device.stats().planes;
    CHECK(planes[0].up);
    CHECK(!planes[1].up);
    const auto up = [&](unsigned plane) { return device.stats().planes[plane].up; };
    shell(
        "ip link add p1 mtu 1500 type veth peer name q1 && ip link set q1 up && ip link set p1 up");
    usleep(100'000);
    CHECK(!up(1));  // its packets would not fit
    shell("ip link set q1 mtu 9216 && ip link set p1 mtu 9216");
    CHECK(eventually([&] { return up(1); }));
    shell("ip link del p0 && ip link del p1 && ip addr add fd00:1::1/128 dev lo");
    CHECK(contains(open_error(file.config()), "there is no interface p0 for plane 0"));
  });
}

namespace {

/// A device of one of them, with a queue pair.
struct Neighbour {
  explicit Neighbour(Config config, const char* host) : device(with_host(config, host)) {
    QpOptions options;
    options.send_cq = &cq;
    qp = device.create_qp(options);
  }
  static Config& with_host(Config& config, const char* host) {
    config.host = host;
    return config;
  }

  Device device;
  CompletionQueue cq = device.create_cq(8);
  QueuePair qp;
};

}  // namespace

TEST_CASE("fabric: programs that sleep hear of a link that goes down, here and at the peer") {
  in_new_network([] {
    make_neighbours();
    const DescriptionFile file(kNeighbours);
    Neighbour a(file.config(), "h0"), b(file.config(), "h1");
    a.qp.connect(b.qp.local_info());
    b.qp.connect(a.qp.local_info());
    std::uint64_t updates = 0;  // that the peer has heard of
    const auto settled = [&](bool up) {
      for (int i = 0; i < 500; ++i) {  // nobody polls: their helpers have to see to it
        const DeviceStats here = a.device.stats(), there = b.device.stats();
        const std::uint64_t heard = there.engine.port_updates_received;
        if (here.planes[1].up == up && heard > updates) {  // several, if its answer came late
          updates = heard;
          return true;
        }
        usleep(10'000);
      }
      return false;
    };
    REQUIRE(a.device.stats().planes[1].up);
    shell("ip link set sa1 down");
    CHECK(settled(false));
    CHECK(b.device.stats().planes[1].up);  // its own port is fine
    shell("ip link set sa1 up");
    CHECK(settled(true));
  });
}

TEST_CASE("fabric: no packet is longer than the description allows") {
  in_new_network([] {
    make_neighbours();  // of 9216 bytes
    const auto mtu_with = [](const char* mtu) {
      const DescriptionFile file(R"({ "planes": 2, "mtu": )" + std::string(mtu) +
                                 R"(, "hosts": [{ "interfaces": ["a0", "a1"] }] })");
      Config config = file.config();
      config.mtu = 8192;
      config.log = LogLevel::off;
      const Neighbour host(config, "h0");
      return host.qp.local_info().mtu;
    };
    CHECK(mtu_with("9216") == 8192);
    CHECK(mtu_with("4200") == 3968);
    CHECK(mtu_with("1280") == 1024);
  });
}

}  // namespace fabric_test
