// SPDX-License-Identifier: Apache-2.0
// Devices and networks that fail while messages are under way: none is lost, and no memory changes
// behind a completion.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "mrc/core/system.hpp"
#include "sealed_traffic.hpp"

using namespace mrc;
using namespace mrc::test;

namespace load_test {

using fake_nic::Carrier;
using fake_nic::Fate;

#if defined(MRC_THREAD_SANITIZER)  // placement is UD and more
constexpr std::initializer_list<bool> kPlacements = {true};
#else
constexpr std::initializer_list<bool> kPlacements = {false, true};
#endif

/// Nobody is given up: a busy machine may take long to notice what has failed, and to open it
/// again.
Config patient_config(int number, bool placement) {
  Config config = rdma_config(number, placement);
  config.retry_exponential = 25;  // for ever
  return config;
}

/// Runs `trouble` under messages in both directions, with devices of both kinds, UD only and with
/// placement.
void under_load(const std::function<void(RdmaPair&, const std::function<void()>&)>& trouble,
                std::initializer_list<bool> fragile_ones = {false, true}) {
  for (const bool placement : kPlacements)
    for (const bool fragile : fragile_ones) {
      CAPTURE(placement);
      CAPTURE(fragile);
      const RdmaNetwork network([&](fake_nic::Nic& nic) { nic.fragile = fragile; });
      RdmaPair pair(patient_config(0, placement), patient_config(1, placement), 512 << 10);
      if (placement) pair.until_placed();
      SealedTraffic there(pair.a, pair.b, pair.b_memory);
      SealedTraffic back(pair.b, pair.a, pair.a_memory, 5000);
      const auto goes_on = [&] {
        const bool good = there.goes_on() && back.goes_on();
        INFO(there.failure() << back.failure());
        REQUIRE(good);
      };
      goes_on();
      trouble(pair, goes_on);
      goes_on();
      if (placement) {  // it is back
        const auto before = RdmaPair::port_of(pair.b).rx_placed;
        CHECK(eventually([&] { return RdmaPair::port_of(pair.b).rx_placed > before; }));
      }
      CHECK(there.finish() == "");
      CHECK(back.finish() == "");
      for (const Side* side : {&pair.a, &pair.b}) {
        CHECK(RdmaPair::port_of(*side).late_writes == 0);
        CHECK(RdmaPair::port_of(*side).peers_refused == 0);
      }
    }
}

TEST_CASE("verbs ports under load: links go down and come up") {
  under_load([](RdmaPair& pair, const auto& goes_on) {
    for (int i = 0; i < 2; ++i)
      for (const char* name : {"nic0", "nic1"}) {
        const Side& side = name[3] == '0' ? pair.a : pair.b;
        fake_nic::set_link(name, false, i == 0);
        REQUIRE(eventually([&] { return !plane_is_up(side); }));
        fake_nic::set_link(name, true, i == 0);
        goes_on();
      }
    // So short that nobody need have noticed, but for queue pairs that fail by it.
    for (int i = 0; i < 5; ++i) {
      fake_nic::set_link("nic1", false, i % 2 == 0);
      fake_nic::set_link("nic1", true, i % 2 == 0);
    }
    goes_on();
  });
}

TEST_CASE("verbs ports under load: an address goes, and comes back at other indices") {
  under_load([](RdmaPair& pair, const auto& goes_on) {
    using Gids = std::vector<fake_nic::Gid>;
    const auto other = gid("fe80::7"), own = gid("127.0.0.11");
    for (const Gids& gids : {Gids{own}, Gids{other, other, other, own}, Gids{other, own}}) {
      fake_nic::set_gids("nic0", {other});
      REQUIRE(eventually([&] { return !plane_is_up(pair.a); }));
      fake_nic::set_gids("nic0", gids);
      goes_on();
    }
    // At once: nobody has seen it gone.
    fake_nic::set_gids("nic0", {other, other, own});
    goes_on();
  });
}

TEST_CASE("verbs ports under load: devices are removed and added again") {
  under_load(
      [](RdmaPair& pair, const auto& goes_on) {
        for (const int i : {1, 0, 1}) {
          const std::string name = RdmaNetwork::nic(i).name;
          const int before = fake_nic::counts().contexts;
          fake_nic::remove(name);
          REQUIRE(eventually([&] { return fake_nic::counts().contexts < before; }));
          CHECK_FALSE(plane_is_up(i == 0 ? pair.a : pair.b));
          fake_nic::add(RdmaNetwork::nic(i));
          goes_on();
        }
        // At once: the port may find the new device before it has missed the old one.
        for (const int i : {1, 0}) {
          fake_nic::remove(RdmaNetwork::nic(i).name);
          fake_nic::add(RdmaNetwork::nic(i));
          goes_on();
        }
      },
      {false});
}

TEST_CASE("verbs ports under load: calls of the device fail") {
  under_load(
      [](RdmaPair&, const auto& goes_on) {
        for (int i = 0; i < 6; ++i) {
          INFO("post_send " << i);
          fake_nic::fail("post_send", 10 + 7 * i, ENOMEM, 1 + i);
          goes_on();
        }
        for (int i = 0; i < 4; ++i) {
          INFO("post_srq_recv " << i);
          fake_nic::fail("post_srq_recv", i, ENOMEM);
          goes_on();
        }
        // On the way back up, too.
        for (const char* what : {"ibv_modify_qp", "ibv_create_qp", "ibv_create_ah", "ibv_create_cq",
                                 "ibv_reg_mr", "ibv_alloc_pd", "ibv_open_device"}) {
          CAPTURE(what);
          fake_nic::fail(what, 1, EIO, 2);
          fake_nic::set_gids("nic1", {gid("127.0.0.12")});
          goes_on();
          fake_nic::set_gids("nic1", {gid("fe80::2"), gid("127.0.0.12")});
          goes_on();
        }
      },
      {false});
}

/// Holds what is placed until some of it has been sent again by UD, and brings it then. Paths are
/// reset 10 ms after that: if a busy machine has done so first, nobody gets what was held, and it
/// is tried again.
void bring_first_copies_late(const RdmaPair& pair) {
  const auto unsettled = [&] { return RdmaPair::port_of(pair.b).rx_unsettled; };
  const auto uc_packets_are = [](Fate fate) {
    fake_nic::set_judge([fate](const fake_nic::Packet& packet) {
      return packet.carrier == Carrier::uc ? fate : Fate::deliver;
    });
  };
  for (int i = 0; i < 10; ++i) {
    const auto before = unsettled();
    uc_packets_are(Fate::hold);
    REQUIRE(eventually([&] { return unsettled() > before; }));
    uc_packets_are(Fate::drop);  // a path keeps its order: nothing may overtake what is held
    const auto in_vain = fake_nic::counts().to_nobody;
    CHECK(fake_nic::release() > 0);
    fake_nic::set_judge(nullptr);
    if (fake_nic::counts().to_nobody == in_vain) break;
  }
}

TEST_CASE("verbs ports under load: first copies are late, and headers, acknowledgements are lost") {
  under_load(
      [](RdmaPair& pair, const auto& goes_on) {
        if (RdmaPair::port_of(pair.b).rx_placed > 0) bring_first_copies_late(pair);
        auto slowest = 0us;
        for (const auto delay : {0us, 300us, 3000us}) {
          fake_nic::set_weather(Carrier::uc, {.loss = 0.05, .delay = delay});
          fake_nic::set_weather(Carrier::ud, {.loss = 0.05, .duplicate = 0.05, .jitter = 200us});
          for (int i = 0; i < 4; ++i) goes_on();
          slowest = delay;
        }
        // Fast again only behind the last of the slow ones.
        fake_nic::set_weather(Carrier::uc, {.loss = 1});
        std::this_thread::sleep_for(slowest);
        fake_nic::set_weather(Carrier::uc, {.delay = 300us});
        fake_nic::set_weather(Carrier::ud, {});
      },
      {false});
}

TEST_CASE("verbs ports under load: memory comes and goes while the device is away") {
  for (const bool removed : {false, true}) {
    CAPTURE(removed);
    const RdmaNetwork network;
    RdmaPair pair(patient_config(0, true), patient_config(1, true));
    pair.until_placed();
    removed ? fake_nic::remove("nic1") : fake_nic::set_link("nic1", false);
    REQUIRE(eventually([&] { return !plane_is_up(pair.b); }));
    std::vector<std::uint8_t> late(1 << 20);
    {
      const MemoryRegion gone =
          pair.b.device.register_memory(std::span(late), RdmaPair::kPlaceable);
    }
    pair.b_memory = pair.b.device.register_memory(std::span(pair.b.target), RdmaPair::kPlaceable);
    if (removed)
      fake_nic::add(RdmaNetwork::nic(1));
    else
      fake_nic::set_link("nic1", true);
    pair.until_placed();
    pair.back();
    // Each port: its own memory, three regions of the side, and nothing of what is gone. Handles
    // of former regions are the program's, which has none.
    const int before = fake_nic::counts().mrs;
    { const MemoryRegion more = pair.b.device.register_memory(std::span(late), Access::none); }
    CHECK(fake_nic::counts().mrs == before);
    CHECK(fake_nic::counts().mrs == 2 * (3 + 3));
  }
}

}  // namespace load_test
