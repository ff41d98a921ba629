// SPDX-License-Identifier: Apache-2.0
// Devices that fail, go away and come back, and networks that break what placement relies on.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "verbs_port_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace failures_test {

using fake_nic::Carrier;
using fake_nic::Fate;
using fake_nic::Packet;

TEST_CASE("verbs ports: a network that duplicates is noticed, and the peer moved to UD") {
  const RdmaNetwork network;
  RdmaPair pair(true);
  pair.until_placed();
  fake_nic::set_weather(Carrier::uc, {.duplicate = 0.01});
  REQUIRE(eventually([&] {
    pair.there();
    return RdmaPair::port_of(pair.b).peers_refused > 0;
  }));
  CHECK(RdmaPair::port_of(pair.b).late_writes > 0);
  fake_nic::set_weather(Carrier::uc, {});
  // From here on by UD, the other way, too.
  REQUIRE(eventually([&] {
    const auto before = RdmaPair::port_of(pair.b).rx_placed;
    pair.there();
    return RdmaPair::port_of(pair.b).rx_placed == before;
  }));
  pair.back();
}

TEST_CASE("verbs ports: a silent path is reset, also where devices use numbers again at once") {
  for (const bool reuses : {false, true}) {
    CAPTURE(reuses);
    const RdmaNetwork network([&](fake_nic::Nic& nic) { nic.reuses_numbers = reuses; });
    RdmaPair pair(true);
    pair.until_placed();
    // A queue pair of nic1 gets nothing more; its successor does.
    std::atomic<std::uint32_t> dead{0};
    fake_nic::set_judge([&](const Packet& packet) {
      if (packet.carrier != Carrier::uc || packet.from != "nic0") return Fate::deliver;
      std::uint32_t none = 0;
      (void)dead.compare_exchange_strong(none, packet.destination_qpn);
      return packet.destination_qpn == dead ? Fate::hold : Fate::deliver;
    });
    REQUIRE(eventually([&] {
      pair.there();
      return RdmaPair::port_of(pair.b).path_resets > 0;
    }));
    fake_nic::set_judge(nullptr);
    std::fill(pair.b.target.begin(), pair.b.target.end(), std::uint8_t{0x5E});
    CHECK(fake_nic::release() > 0);  // to a queue pair that is gone
    CHECK(pair.b.target == std::vector<std::uint8_t>(pair.b.target.size(), 0x5E));
    CHECK(RdmaPair::port_of(pair.b).late_writes == 0);
    CHECK(RdmaPair::port_of(pair.b).peers_refused == 0);
    pair.there();
  }
}

TEST_CASE("verbs ports: a disabled plane is silent, and works again when it is enabled") {
  for (const bool placement : {false, true}) {
    CAPTURE(placement);
    const RdmaNetwork network;
    RdmaPair pair(placement);
    if (placement) pair.until_placed();
    pair.there();
    std::fill(pair.a.target.begin(), pair.a.target.end(), std::uint8_t{0x5E});
    pair.a.device.set_plane_enabled(0, false);
    std::atomic<int> packets{0};
    fake_nic::set_judge([&](const Packet& packet) {
      packets += packet.from == "nic0";
      return Fate::deliver;
    });
    REQUIRE(post_write(pair.a, 0, 64 << 10, pair.b_memory, 0) == Errc::ok);
    REQUIRE(post_write(pair.b, 0, 64 << 10, pair.a_memory, 0) == Errc::ok);
    std::this_thread::sleep_for(50ms);
    CHECK(packets == 0);
    CHECK(pair.a.target == std::vector<std::uint8_t>(pair.a.target.size(), 0x5E));
    CHECK(!plane_is_up(pair.a));
    pair.a.device.set_plane_enabled(0, true);
    CHECK(pair.a.await_one().status == WcStatus::success);
    CHECK(pair.b.await_one().status == WcStatus::success);
    CHECK(packets > 0);
    CHECK(plane_is_up(pair.a));
    fake_nic::set_judge(nullptr);
    if (placement) pair.until_placed();
    pair.back();
  }
}

TEST_CASE("verbs ports: a peer that ends, and another one at its address") {
  const RdmaNetwork network;
  Side a(rdma_config(0, true));
  for (int i = 0; i < 3; ++i) {
    Side b(rdma_config(1, true));
    a.qps.clear();
    b.qps.clear();
    connect(a.add_qp(), b.add_qp());
    const MemoryRegion memory = b.device.register_memory(std::span(b.target), RdmaPair::kPlaceable);
    REQUIRE(eventually([&] {
      REQUIRE(post_write(a, 0, 64 << 10, memory, 0) == Errc::ok);
      REQUIRE(a.await_one().status == WcStatus::success);
      return RdmaPair::port_of(b).rx_placed > 0;
    }));
    CHECK(std::equal(b.target.begin(), b.target.begin() + (64 << 10), a.source.begin()));
  }
}

TEST_CASE("verbs ports: what can't be made when a device is opened is said, and leaves nothing") {
  const RdmaNetwork network;
  const auto refusal = [](const std::string& function, int after, int error, int times = 1) {
    fake_nic::fail(function, after, error, times);
    const std::string text = thrown_by([] { const Device device(rdma_config(0, true)); }).what();
    CHECK(fake_nic::counts().objects() == 0);
    CAPTURE(function);
    CHECK(contains(text, "nic0"));
    return text;
  };
  CHECK(contains(refusal("ibv_open_device", 0, EACCES), "/dev/infiniband"));
  CHECK(contains(refusal("ibv_reg_mr", 0, ENOMEM), "RLIMIT_MEMLOCK"));
  (void)refusal("ibv_alloc_pd", 0, ENOMEM);
  (void)refusal("ibv_create_comp_channel", 0, EMFILE);
  for (int i = 0; i < 3; ++i) (void)refusal("ibv_create_cq", i, ENOMEM);
  for (int i = 0; i < 2; ++i) (void)refusal("ibv_create_srq", i, ENOMEM);
  CHECK(contains(refusal("ibv_create_qp", 2, ENOMEM, 2), "UD queue pair"));
  (void)refusal("ibv_modify_qp", 1, EINVAL);
}

TEST_CASE("verbs ports: memory that can't be registered is refused, and the device goes on") {
  const RdmaNetwork network;
  RdmaPair pair(true);
  fake_nic::fail("ibv_reg_mr", 0, ENOMEM);
  const std::string text =
      thrown_by([&] {
        (void)pair.a.device.register_memory(std::span(pair.a.target), Access::none);
      }).what();
  CHECK(contains(text, "RLIMIT_MEMLOCK"));
  pair.there();
}

TEST_CASE("verbs ports: devices, ports and addresses are chosen by what they are") {
  const RdmaNetwork network;
  fake_nic::Nic many;
  many.name = "nic2";
  many.gids = {gid("fe80::3")};
  many.others = {{gid("fe80::4"), gid("2001:db8::4"), gid("127.0.0.21", false), gid("127.0.0.22")},
                 {gid("127.0.0.23")}};
  fake_nic::add(many);
  fake_nic::Nic off = RdmaNetwork::nic(3);
  off.active = false;
  fake_nic::add(off);
  const auto address = [](const std::string& verbs) {
    Config config = rdma_config(0, false);
    config.verbs = verbs;
    std::string text;
    for (const std::string& name : Device(config).plane_names())
      text += name.substr(0, name.rfind(':')) + ' ';
    return text;
  };
  CHECK(address("nic2:3") == "127.0.0.23 ");
  CHECK(address("nic2:2@127.0.0.22") == "127.0.0.22 ");
  CHECK(address("nic2:3,nic0") == "127.0.0.23 127.0.0.11 ");
  const auto refusal = [&](const std::string& verbs) -> std::string {
    return thrown_by([&] { (void)address(verbs); }).what();
  };
  CHECK(contains(refusal("nic2:1"), "no routable address"));
  CHECK(contains(refusal("nic2:4"), "no port 4"));
  CHECK(contains(refusal("nic2:3@127.0.0.99"), "does not have the address 127.0.0.99"));
  CHECK(contains(refusal("nic3"), "is not active"));
  CHECK(contains(refusal("nic4"), "nic0, nic1, nic2, nic3"));
  CHECK(contains(refusal("nic0@fe80::1"), "link-local"));
  // Nothing but loopback addresses and 2001:db8::4, which this host has no socket for.
  CHECK(contains(refusal("all"), "2001:db8::4"));
}

}  // namespace failures_test
