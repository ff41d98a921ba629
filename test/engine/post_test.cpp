// SPDX-License-Identifier: Apache-2.0
// Posting: limits, SGEs, inline data; memory regions; completion queues and events.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using wire::Opcode;

namespace post_test {

/// Posts SGEs as they are and returns what goes out.
Errc post_sges(Single& s, std::span<const Sge> sges, bool inlined = false) {
  SendRequest r;
  r.wr_id = 1;
  r.sges = sges;
  r.remote = {0x5000'0000, 0x1234};
  r.flags.inline_data = inlined;
  return s.engine.post_send(s.qpn, r, s.now);
}
std::vector<std::uint8_t> payload_of(const SentList& list) {
  std::vector<std::uint8_t> all;
  for (const Sent& p : list) {
    const Bytes b = p.write().payload;
    all.insert(all.end(), b.begin(), b.end());
  }
  return all;
}

TEST_CASE("post: the send queue holds what it was made for") {
  Single s;
  for (unsigned i = 0; i < 64; ++i) REQUIRE(s.post({.id = i}) == Errc::ok);
  CHECK(s.post({}) == Errc::queue_full);
  (void)s.transmit();
  CHECK(s.post({}) == Errc::queue_full);  // sent is not completed
  s.ack(0, 0);
  CHECK(s.post({}) == Errc::ok);
  CHECK(s.post({}) == Errc::queue_full);
}

TEST_CASE("post: SGEs are checked one by one, and nothing is left of a refused post") {
  Single s;
  const std::uint8_t* data = s.source.data();
  const Sge ok{data, 10, s.lkey};
  const auto one = [&](const Sge& sge) { return post_sges(s, std::array{ok, sge}); };
  CHECK(one({data, 10, s.lkey ^ 0x10000}) == Errc::invalid_lkey);
  CHECK(one({data, 10, 0}) == Errc::invalid_lkey);
  CHECK(one({data + s.source.size() - 9, 10, s.lkey}) == Errc::invalid_lkey);
  CHECK(one({data - 1, 10, s.lkey}) == Errc::invalid_lkey);
  CHECK(one({data, 0x7FFFFF00, s.lkey}) == Errc::invalid_lkey);
  const auto* const top = reinterpret_cast<const void*>(~std::uintptr_t{0} - 10);
  CHECK(one({top, 64, s.lkey}) == Errc::invalid_lkey);  // wraps around
  const PdId other = *s.engine.alloc_pd();
  const auto foreign = *s.engine.register_memory(s.source.data(), 100, Access::none, other);
  CHECK(one({data, 10, foreign}) == Errc::wrong_pd);
  CHECK(post_sges(s, std::array{ok, ok, ok, ok}) == Errc::too_many_sges);
  const Sge big{data, 0x8000'0000u, s.lkey};
  CHECK(post_sges(s, std::array{big, ok}) == Errc::too_long);
  CHECK(s.transmit().empty());
  CHECK(s.qp().tx.next_msn == Msn{0});
  CHECK(s.engine.deregister_memory(s.lkey) == Errc::ok);  // no use was counted
}

TEST_CASE("post: SGEs may split anywhere, packets too") {
  Single s;
  const std::uint32_t cuts[][3] = {{1, 1, 3000}, {1023, 2, 1}, {1024, 1024, 1024}, {0, 2048, 5},
                                   {5, 0, 1019}, {1025, 0, 0}, {2000, 1500, 7},    {0, 0, 0}};
  for (const auto& cut : cuts) {
    std::vector<std::uint8_t> want;
    std::array<Sge, 3> sges;
    std::size_t at = 0;
    for (unsigned i = 0; i < 3; ++i) {
      sges[i] = {s.source.data() + at, cut[i], s.lkey};
      want.insert(want.end(), s.source.begin() + static_cast<std::ptrdiff_t>(at),
                  s.source.begin() + static_cast<std::ptrdiff_t>(at + cut[i]));
      at += cut[i] + 100;  // not next to each other
    }
    REQUIRE(post_sges(s, sges) == Errc::ok);
    const SentList out = data_of(s.transmit());
    CHECK(out.size() == std::max<std::size_t>(1, (want.size() + 1023) / 1024));
    CHECK(payload_of(out) == want);
    for (const Sent& p : out) CHECK(p.bytes.size() % 4 == 0);
  }
}

TEST_CASE("post: inline data is copied at once, needs no key, and has its limit") {
  Single s;
  std::vector<std::uint8_t> data(64);
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  const std::vector<std::uint8_t> want = data;
  const std::array sges = {Sge{data.data(), 20, 0}, Sge{data.data() + 20, 0, 0},
                           Sge{data.data() + 20, 14, 99}, Sge{data.data() + 34, 30, 0}};
  REQUIRE(post_sges(s, sges, true) == Errc::ok);
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  CHECK(payload_of(data_of(s.transmit())) == want);
  const std::vector<std::uint8_t> more(65);
  CHECK(post_sges(s, std::array{Sge{more.data(), 65, 0}}, true) == Errc::too_long);
  CHECK(post_sges(s, {}, true) == Errc::ok);
}

TEST_CASE("memory: registration checks, and a key that is gone stays gone") {
  Single s;
  Engine& e = s.engine;
  std::uint8_t b[16];
  CHECK(e.register_memory(nullptr, 10, Access::none, s.pd).error() == Errc::invalid_argument);
  CHECK(e.register_memory(b, 0, Access::none, s.pd).error() == Errc::invalid_argument);
  CHECK(e.register_memory(b, ~0ull, Access::none, s.pd).error() == Errc::invalid_argument);
  CHECK(e.register_memory(b, 16, Access::none, PdId{9}).error() == Errc::not_found);
  std::vector<std::uint32_t> seen;
  for (unsigned i = 0; i < 100; ++i) {
    const auto key = *e.register_memory(b, 16, Access::none, s.pd);
    CHECK(key != 0);
    for (const auto old : seen) CHECK(key != old);
    seen.push_back(key);
    if (i % 2 == 0) continue;  // beside others that stay
    CHECK(e.deregister_memory(key) == Errc::ok);
    CHECK(e.deregister_memory(key) == Errc::not_found);
  }
  EngineOptions small;
  small.max_mrs = 2;
  Engine limited(small);
  const PdId pd = *limited.alloc_pd();
  CHECK(limited.register_memory(b, 1, Access::none, pd).ok());
  CHECK(limited.register_memory(b, 1, Access::none, pd).ok());
  CHECK(limited.register_memory(b, 1, Access::none, pd).error() == Errc::no_resources);
}

TEST_CASE("memory: by force under posted requests, their queue pairs fail and others do not") {
  Single s;
  const Qpn first = s.qpn;
  s.qpn = s.create();
  s.connect();
  const auto other = *s.engine.register_memory(s.source.data(), 4096, Access::none, s.pd);
  REQUIRE(s.post({.id = 5}) == Errc::ok);
  s.qpn = first;
  REQUIRE(post_sges(s, std::array{Sge{s.source.data(), 10, other}}) == Errc::ok);
  REQUIRE(s.post({.id = 6}) == Errc::ok);
  CHECK(s.engine.deregister_memory(other) == Errc::in_use);
  CHECK(s.engine.deregister_memory(other, true) == Errc::ok);
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::memory_withdrawn);
  const auto c = s.sends();
  REQUIRE(c.size() == 2);
  CHECK(c[0].status == WcStatus::loc_prot_err);
  CHECK(c[1].status == WcStatus::wr_flush_err);
  CHECK(data_of(s.transmit()).size() == 1);  // the other queue pair goes on
}

TEST_CASE("completion queue: overrun is noticed, is told once, and fails everyone attached") {
  Single s;
  const Qpn bystander = s.qpn;
  s.send_cq = *s.engine.create_cq(2);
  const Qpn a = s.qpn = s.create();
  s.connect();
  for (unsigned i = 0; i < 3; ++i) REQUIRE(s.post({.id = i}) == Errc::ok);
  (void)s.transmit();
  const Psn own = s.own;
  const Qpn b = s.qpn = s.create();
  s.connect();
  s.qpn = a;
  s.own = own;
  s.ack(2, 2);
  CHECK(s.engine.find_qp(a)->cause == QpErrorCause::cq_overrun);
  CHECK(s.engine.find_qp(b)->cause == QpErrorCause::cq_overrun);
  CHECK(s.engine.find_qp(bystander)->state == QpState::rts);
  CHECK(s.engine.find_cq(s.send_cq)->overrun);
  CHECK(s.sends().size() == 2);  // what fitted is still there
  unsigned overruns = 0, errors = 0;
  engine::Engine::Event e;
  while (s.engine.poll_event(e)) {
    overruns += e.kind == engine::Engine::Event::Kind::cq_overrun;
    errors += e.kind == engine::Engine::Event::Kind::qp_error;
  }
  CHECK(overruns == 1);
  CHECK(errors == 2);
  REQUIRE(s.engine.destroy_qp(a) == Errc::ok);
  REQUIRE(s.engine.destroy_qp(b) == Errc::ok);
  CHECK(s.engine.destroy_cq(s.send_cq) == Errc::ok);
  CHECK(*s.engine.create_cq(2) == s.send_cq);
  CHECK_FALSE(s.engine.find_cq(s.send_cq)->overrun);
}

TEST_CASE("completion queue: depth limits, and polling what is not there") {
  Single s;
  CHECK(s.engine.create_cq(0).error() == Errc::invalid_argument);
  CHECK(s.engine.create_cq((1u << 22) + 1).error() == Errc::invalid_argument);
  Completion c;
  CHECK(s.engine.poll_cq(CqId{99}, {&c, 1}) == 0);
  CHECK(s.engine.arm_cq(CqId{99}) == Errc::not_found);
}

TEST_CASE("events: an armed queue tells once, and not before it is armed again") {
  Single s;
  using EventKind = engine::Engine::Event::Kind;
  engine::Engine::Event e;
  std::uint16_t msn = 0;
  const auto complete_one = [&] {
    REQUIRE(s.post({}) == Errc::ok);
    (void)s.transmit();
    s.ack(msn, msn);
    ++msn;
  };
  complete_one();
  CHECK_FALSE(s.engine.poll_event(e));  // not armed
  REQUIRE(s.engine.arm_cq(s.send_cq) == Errc::ok);
  CHECK_FALSE(s.engine.poll_event(e));  // what is there already does not count
  complete_one();
  complete_one();
  REQUIRE(s.engine.poll_event(e));
  CHECK(e.kind == EventKind::completion);
  CHECK(e.cq == s.send_cq);
  CHECK_FALSE(s.engine.poll_event(e));
  complete_one();
  CHECK_FALSE(s.engine.poll_event(e));
  REQUIRE(s.engine.arm_cq(s.receive_cq) == Errc::ok);
  s.data({.n = 0, .opcode = Opcode::write_only_imm});
  REQUIRE(s.engine.poll_event(e));
  CHECK(e.cq == s.receive_cq);
  // Armed again while its event still waits: the next completion tells again.
  REQUIRE(s.engine.arm_cq(s.send_cq) == Errc::ok);
  complete_one();
  REQUIRE(s.engine.arm_cq(s.send_cq) == Errc::ok);
  REQUIRE(s.engine.poll_event(e));
  complete_one();
  CHECK(s.engine.poll_event(e));
}

}  // namespace post_test
