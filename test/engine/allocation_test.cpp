// SPDX-License-Identifier: Apache-2.0
// After set-up the engine takes no memory: neither posting nor sending, receiving, timers, polling.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/engine_pair.hpp"

namespace {
std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment = 0) {
  ++allocations;
  void* p = alignment == 0
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}
/// Not inlined, or the compiler misses the operator new that belongs to the free().
[[gnu::noinline]] void release(void* p) noexcept {
  std::free(p);
}
}  // namespace

void* operator new(std::size_t n) {
  return counted(n);
}
void* operator new[](std::size_t n) {
  return counted(n);
}
void* operator new(std::size_t n, std::align_val_t a) {
  return counted(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return counted(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept {
  release(p);
}
void operator delete[](void* p) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t) noexcept {
  release(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  release(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  release(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  release(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  release(p);
}

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace allocation_test {

/// Two engines back to back, without any container of the test's in between: packets go straight
/// from one's burst into the other's receive().
class BackToBack {
 public:
  BackToBack() {
    for (unsigned side = 0; side < 2; ++side) {
      EngineOptions o;
      o.slot = static_cast<std::uint8_t>(side);
      o.start = now;
      engines[side] = std::make_unique<Engine>(o);
      pd[side] = *engines[side]->alloc_pd();
      cq[side] = *engines[side]->create_cq(1024);
      key[side] = *engines[side]->register_memory(
          memory[side], sizeof memory[side], Access::local_write | Access::remote_write, pd[side]);
      engine::PeerSpec spec;
      spec.slot = static_cast<std::uint8_t>(1 - side);
      spec.planes = 3;
      for (std::uint32_t i = 0; i < 8; ++i)
        spec.paths.push_back({Ev{i + 1}, static_cast<Plane>(i % 2), static_cast<std::uint16_t>(i)});
      peer[side] = *engines[side]->add_peer(spec);
      engine::QpInit init;
      init.pd = pd[side];
      init.send_cq = init.receive_cq = cq[side];
      init.attributes.mtu = 1024;
      init.attributes.timeout = 7;
      qpn[side] = *engines[side]->create_qp(init);
    }
    for (unsigned side = 0; side < 2; ++side) {
      RemoteQp r;
      r.peer = peer[side];
      r.qpn = qpn[1 - side];
      r.start_psn = *engines[1 - side]->start_psn(qpn[1 - side]);
      r.trim_nack = r.dynamic_mpr = true;
      REQUIRE(engines[side]->to_init(qpn[side]) == Errc::ok);
      REQUIRE(engines[side]->to_rtr(qpn[side], r) == Errc::ok);
      REQUIRE(engines[side]->to_rts(qpn[side], now) == Errc::ok);
    }
  }
  void post(unsigned side, std::uint64_t id) {
    const Sge sge{memory[side], 1 + random.below(9000), key[side]};
    SendRequest r;
    r.wr_id = id;
    r.sges = {&sge, 1};
    r.remote = {reinterpret_cast<std::uint64_t>(memory[1 - side]) + 10'000, key[1 - side]};
    const bool with_immediate = id % 3 == 0;
    if (with_immediate) r.opcode = SendOpcode::write_imm;
    r.flags.signaled = id % 2 == 0;
    if (with_immediate && engines[1 - side]->post_receive(qpn[1 - side], id) != Errc::ok) return;
    (void)engines[side]->post_send(qpn[side], r, now);
  }
  void exchange(unsigned side) {
    for (;;) {
      burst.clear();
      engines[side]->poll_transmit(now, ~PlaneMask{0}, burst);
      if (burst.empty()) return;
      for (const auto& p : burst.packets()) carry(side, p);
    }
  }
  void carry(unsigned side, const wire::TxPacket& p) {
    const std::uint32_t fate = random.below(100);
    if (fate < 3) return;
    std::size_t n = p.header_length;
    std::memcpy(buffer, p.header.data(), n);
    for (const auto& sge : burst.sges(p)) {
      std::memcpy(buffer + n, sge.data, sge.length);
      n += sge.length;
    }
    std::memset(buffer + n, 0, p.pad);
    n += p.pad;
    wire::RxPacket in;
    in.udp_length = static_cast<std::uint32_t>(n + 12);
    in.plane = p.plane;
    in.entropy = p.entropy;
    in.ecn = fate < 10 ? Ecn::ce : p.ecn;
    const bool trim = fate >= 10 && fate < 13 && p.payload_length > 0;
    in.trim = trim ? wire::Trim::trimmed : wire::Trim::none;
    in.bytes = {buffer, trim ? 20 : n};
    engines[1 - side]->receive(now, {&in, 1});
    if (fate > 97) engines[1 - side]->receive(now, {&in, 1});
  }

  Time now{1s};
  Random random{4};
  std::uint8_t memory[2][20'000]{};
  std::uint8_t buffer[10'000];
  std::unique_ptr<Engine> engines[2];
  PdId pd[2]{};
  CqId cq[2]{};
  std::uint32_t key[2]{};
  PeerId peer[2]{};
  Qpn qpn[2]{};
  wire::TxBurst burst{64, 256};
};

TEST_CASE("no allocation after set-up, faults of all kinds included") {
  const auto pair = std::make_unique<BackToBack>();
  const std::uint64_t before = allocations;
  CHECK(before > 0);  // the count works
  std::uint64_t id = 0, completions = 0;
  Completion c[64];
  for (unsigned round = 0; round < 4000; ++round) {
    for (unsigned side = 0; side < 2; ++side) {
      if (round % 2 == 0) pair->post(side, id++);
      pair->exchange(side);
      completions += pair->engines[side]->poll_cq(pair->cq[side], c);
      (void)pair->engines[side]->arm_cq(pair->cq[side]);
      engine::Engine::Event e;
      while (pair->engines[side]->poll_event(e)) {
      }
      if (pair->engines[side]->next_deadline() <= pair->now)
        pair->engines[side]->on_time(pair->now);
      if (round % 500 == 250) pair->engines[side]->set_plane_up(pair->now, 1, false);
      if (round % 500 == 350) pair->engines[side]->set_plane_up(pair->now, 1, true);
    }
    pair->now += 10us;
  }
  const std::uint64_t after = allocations;
  CHECK(after == before);
  CHECK(completions > 2000);
  for (unsigned side = 0; side < 2; ++side) {
    const auto& stats = pair->engines[side]->stats();
    CHECK(pair->engines[side]->find_qp(pair->qpn[side])->state == QpState::rts);
    CHECK(stats.tx_retransmits > 0);
    CHECK(stats.nacks_received > 0);
    CHECK(stats.timeouts + stats.inferred_losses > 0);
  }
  const std::uint64_t start = allocations;
  const Errc failed = pair->engines[0]->to_error(pair->qpn[0]);
  const std::uint64_t end = allocations;
  CHECK(failed == Errc::ok);
  CHECK(end == start);
}

}  // namespace allocation_test
