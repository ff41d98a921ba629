// SPDX-License-Identifier: Apache-2.0
// All kinds of requests over RDMA devices, in both directions and on several queue pairs at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "device/rc_rig.hpp"
#include "verbs_port_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace requests_test {

using fake_nic::Carrier;

/// Runs a test UD only and with placement, on a clean network and on one that loses, duplicates and
/// reorders what it may.
void on_networks(const std::function<void(bool placement)>& test) {
  for (const bool placement : {false, true})
    for (const bool bad : {false, true}) {
      CAPTURE(placement);
      CAPTURE(bad);
      const RdmaNetwork network;
      if (bad) {
        fake_nic::set_weather(Carrier::ud, {.loss = 0.05, .duplicate = 0.1, .jitter = 100us});
        fake_nic::set_weather(Carrier::uc, {.loss = 0.05, .delay = 100us});
      }
      test(placement);
    }
}

TEST_CASE("verbs ports: SENDs, READs and atomics of all sizes") {
  on_networks([](bool placement) {
    RcSide a(rdma_config(0, placement)), b(rdma_config(1, placement));
    connect(a.add(), b.add());
    const auto finish = [](RcSide& side) {
      const Completion done = side.await_one();
      INFO(side.qps[0].error_text());
      REQUIRE(done.status == WcStatus::success);
      return done;
    };
    std::uint64_t sum = 0;
    for (const std::size_t size : {0u, 1u, 511u, 1024u, 3968u, 3969u, 4096u, 50'001u}) {
      CAPTURE(size);
      REQUIRE(post_receive(b.qps[0], {b.into(3, size)}) == Errc::ok);
      REQUIRE(post(a.qps[0], SendOpcode::send, {a.sge(7, size)}) == Errc::ok);
      (void)finish(a);
      CHECK(finish(b).byte_len == size);
      CHECK(std::equal(a.source.begin() + 7, a.source.begin() + 7 + static_cast<int>(size),
                       b.target.begin() + 3));
      // Back to where nothing of it is yet.
      REQUIRE(post(a.qps[0], SendOpcode::read, {a.into(1, size)}, b.target_region.remote(3)) ==
              Errc::ok);
      (void)finish(a);
      CHECK(std::equal(a.source.begin() + 7, a.source.begin() + 7 + static_cast<int>(size),
                       a.target.begin() + 1));
      REQUIRE(post_atomic(a, a.qps[0], b, 5, SendOpcode::fetch_add, size + 1) == Errc::ok);
      (void)finish(a);
      CHECK(a.words[5] == sum);
      sum += size + 1;
    }
    CHECK(b.words[5] == sum);
  });
}

TEST_CASE("verbs ports: writes with immediate complete in order, after their data") {
  on_networks([](bool placement) {
    RdmaPair pair(placement);
    constexpr std::uint32_t kCount = kBrief ? 100 : 400;
    const std::size_t bytes = 2000;
    std::uint32_t posted = 0, received = 0, sent = 0, receives = 0;
    while (received < kCount || sent < kCount) {
      for (; receives < std::min(kCount, received + 64); ++receives)
        REQUIRE(pair.b.qps[0].post_receive(receives) == Errc::ok);
      for (; posted < std::min({kCount, sent + 32, receives}); ++posted) {
        const Sge sge = pair.a.sge(posted * bytes, bytes);
        SendRequest request;
        request.wr_id = posted;
        request.opcode = SendOpcode::write_imm;
        request.sges = {&sge, 1};
        request.remote = pair.b_memory.remote(posted * bytes);
        request.immediate = posted * 7;
        REQUIRE(pair.a.qps[0].post_send(request) == Errc::ok);
      }
      if (received < kCount) {
        const Completion done = pair.b.await_one();
        REQUIRE(done.status == WcStatus::success);
        REQUIRE(done.wr_id == received);
        REQUIRE(done.immediate == received * 7);
        REQUIRE(std::memcmp(&pair.a.source[received * bytes], &pair.b.target[received * bytes],
                            bytes) == 0);
        ++received;
      }
      if (sent < kCount && (received == kCount || posted == sent + 32)) {
        const Completion done = pair.a.await_one();
        REQUIRE(done.status == WcStatus::success);
        REQUIRE(done.wr_id == sent++);
      }
    }
  });
}

TEST_CASE("verbs ports: several queue pairs, both ways at once") {
  on_networks([](bool placement) {
    RdmaPair pair(placement);
    constexpr std::size_t kQps = 6, kRounds = 3;
    for (std::size_t i = 1; i < kQps; ++i) connect(pair.a.add_qp(), pair.b.add_qp());
    const std::size_t share = pair.a.source.size() / kQps;
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (Side* side : {&pair.a, &pair.b})
        std::fill(side->target.begin(), side->target.end(), std::uint8_t{0});
      for (std::size_t i = 0; i < kQps; ++i)
        for (const bool there : {true, false}) {
          Side& from = there ? pair.a : pair.b;
          const MemoryRegion& memory = there ? pair.b_memory : pair.a_memory;
          REQUIRE(post_write(from, i * share, share, memory, i * share, 0, i) == Errc::ok);
        }
      for (Side* side : {&pair.a, &pair.b})
        for (const Completion& done : side->await(kQps)) REQUIRE(done.status == WcStatus::success);
      const auto end = static_cast<std::ptrdiff_t>(kQps * share);
      CHECK(std::equal(pair.a.source.begin(), pair.a.source.begin() + end, pair.b.target.begin()));
      CHECK(std::equal(pair.b.source.begin(), pair.b.source.begin() + end, pair.a.target.begin()));
    }
    CHECK(RdmaPair::port_of(pair.b).peers_refused == 0);
  });
}

}  // namespace requests_test
