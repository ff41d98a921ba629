// SPDX-License-Identifier: Apache-2.0
// Devices that run out of something, and the choice of planes.
#include <doctest/doctest.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdio>

#include "verbs_port_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace limits_test {

using fake_nic::Carrier;

/// An IPv4 address of this host that other hosts can reach; empty: there is none.
std::string own_address() {
  ifaddrs* list = nullptr;
  std::string found;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = "";
    const auto* in = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    (void)::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    const std::string address = text;
    if (!address.starts_with("127.") && !address.starts_with("169.254.")) found = address;
  }
  ::freeifaddrs(list);
  return found;
}

TEST_CASE("verbs ports: whichever queue pair for placement can't be made, payload goes by UD") {
  for (const int good : {0, 5}) {  // of 4 that receive and 4 that send
    CAPTURE(good);
    const RdmaNetwork network;
    fake_nic::Nic poor = RdmaNetwork::nic(1);
    poor.max_qp = 4 + good;
    fake_nic::add(poor);
    LogLines log;
    Config config = rdma_config(1, true);
    log.capture(config, LogLevel::warn);
    RdmaPair pair(rdma_config(0, true), config, 100'000);
    REQUIRE(eventually([&] {  // until it is given up
      pair.there();
      pair.back();
      return log.count("goes by UD from now on") > 0;
    }));
    CHECK(log.count("cannot create a UC queue pair") > 0);
    CHECK(log.count("nic1") > 0);
    pair.there();
    pair.back();
  }
}

TEST_CASE("verbs ports: devices too small for the paths are refused") {
  const RdmaNetwork network;
  const auto refusal = [](auto change) {
    fake_nic::Nic small = RdmaNetwork::nic(0);
    change(small);
    fake_nic::add(small);
    const std::string text = thrown_by([] { const Device device(rdma_config(0, true)); }).what();
    CHECK(contains(text, "nic0"));
    CHECK(fake_nic::counts().objects() == 0);
    return text;
  };
  CHECK(contains(refusal([](fake_nic::Nic& n) { n.max_qp = 3; }), "UD queue pair 4 of 4"));
  CHECK(contains(refusal([](fake_nic::Nic& n) { n.max_sge = 2; }), "fewer `paths` may help"));
  CHECK(contains(refusal([](fake_nic::Nic& n) { n.max_qp_wr = 15; }), "queues of 15"));
  CHECK(contains(refusal([](fake_nic::Nic& n) { n.max_cqe = 50; }), "completion queues of 50"));
  CHECK(contains(refusal([](fake_nic::Nic& n) { n.max_srq_wr = 63; }), "receive queues of 63"));
  CHECK(contains(refusal([](fake_nic::Nic& n) { n.ethernet = false; }), "not Ethernet"));
}

TEST_CASE("verbs ports: small queues make it slow, and nothing overflows") {
  const RdmaNetwork network([](fake_nic::Nic& small) {
    small.max_qp_wr = 64;
    small.max_cqe = 256;
    small.max_srq_wr = 256;
    small.max_sge = 3;
    small.max_inline = 0;
    small.send_delay = 50us;
  });
  RdmaPair pair(true, 300'000);
  pair.until_placed();
  fake_nic::set_weather(Carrier::ud, {.loss = 0.02});
  pair.there(5000);
  pair.back(100'000);
}

TEST_CASE("verbs ports: two planes on the ports of one device, of which one fails") {
  for (const bool placement : {false, true}) {
    CAPTURE(placement);
    const RdmaNetwork network;
    Config configs[2];
    for (int i = 0; i < 2; ++i) {
      fake_nic::Nic nic = RdmaNetwork::nic(i);
      nic.others = {{gid("127.0.0.2" + std::to_string(i + 1))}};
      fake_nic::add(nic);
      configs[i] = rdma_config(i, placement);
      configs[i].verbs = nic.name + ":1," + nic.name + ":2";
    }
    RdmaPair pair(configs[0], configs[1]);
    const auto packets = [&](std::size_t plane) {
      return pair.a.device.stats().planes[plane].port.tx_packets;
    };
    pair.there();
    for (const std::size_t plane : {0u, 1u}) CHECK(packets(plane) > 0);
    fake_nic::set_link("nic0", false);
    REQUIRE(eventually([&] { return !plane_is_up(pair.a); }));
    CHECK(pair.a.device.stats().planes[1].up);
    const auto before = packets(1);
    pair.there();
    pair.back();
    CHECK(packets(1) > before);
    fake_nic::set_link("nic0", true);
    REQUIRE(eventually([&] {
      const auto former = packets(0);
      pair.there();
      return packets(0) > former;
    }));
  }
}

TEST_CASE("verbs ports: all devices are those that others can reach") {
  const std::string address = own_address();
  if (address.empty()) {
    std::puts("[test skipped] this host has no address that others can reach");
    return;
  }
  const RdmaNetwork network;  // nic0 and nic1 have loopback addresses
  const auto add = [](const std::string& name, std::vector<fake_nic::Gid> gids, auto change) {
    fake_nic::Nic nic;
    nic.name = name;
    nic.gids = std::move(gids);
    change(nic);
    fake_nic::add(nic);
  };
  const auto as_it_is = [](fake_nic::Nic&) {};
  add("nic2", {gid("fe80::1")}, as_it_is);
  add("nic3", {gid(address)}, [](fake_nic::Nic& n) { n.active = false; });
  add("nic4", {gid(address)}, [](fake_nic::Nic& n) { n.ethernet = false; });
  add("nic5", {gid(address, false)}, as_it_is);
  Config config = rdma_config(0, false);
  config.verbs = "all";
  const auto refusal = [&] { return std::string(thrown_by([&] { Device d(config); }).what()); };
  CHECK(contains(refusal(), "nic0, nic1, nic2, nic3, nic4, nic5"));
  add("nic6", {gid("fe80::6"), gid("127.0.0.16"), gid(address)},
      [](fake_nic::Nic& n) { n.others = {{gid("fe80::7")}}; });
  {
    const Device device(config);
    REQUIRE(device.plane_names().size() == 1);
    CHECK(contains(device.plane_names()[0], address));
  }
  for (int i = 0; i <= 6; ++i) fake_nic::remove("nic" + std::to_string(i));
  CHECK(contains(refusal(), "there are: none"));
  fake_nic::fail("ibv_get_device_list", 0, ENOSYS);
  CHECK(contains(refusal(), "modprobe"));
}

}  // namespace limits_test
