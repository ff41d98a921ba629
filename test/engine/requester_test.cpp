// SPDX-License-Identifier: Apache-2.0
// The requester: packets that it builds, windows that bind it, what answers do to it.
#include <doctest/doctest.h>

#include <cstring>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;
using wire::Opcode;

TEST_CASE("requester: one message, its packets field by field") {
  Single s;
  REQUIRE(s.post({.length = 2500, .with_immediate = true, .immediate = 0xCAFE}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 3);
  const Opcode opcodes[] = {Opcode::write_first, Opcode::write_middle, Opcode::write_last_imm};
  const std::size_t sizes[] = {1024, 1024, 452};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const wire::WriteView w = out[i].write();
    CHECK(w.bth->opcode() == opcodes[i]);
    CHECK(w.bth->dqp() == Single::kRemote);
    CHECK(w.bth->psn() == s.own + static_cast<std::int32_t>(i));
    CHECK_FALSE(w.bth->rtx());
    CHECK(w.bth->ack_request() == (i == 2));  // nothing more is queued
    CHECK(w.meth->msn.value() == 0);
    CHECK(w.meth->rqmsn.value() == 0);
    CHECK(w.reth->va.value() == 0x5000'0000 + i * 1024);
    CHECK(w.reth->rkey.value() == 0x1234);
    CHECK(w.reth->dma_length.value() == 2500);
    REQUIRE(w.tseth != nullptr);
    CHECK(w.tseth->tx_timestamp.value() == wire::timestamp_of(s.now));
    REQUIRE(w.payload.size() == sizes[i]);
    CHECK(std::memcmp(w.payload.data(), s.source.data() + i * 1024, sizes[i]) == 0);
    CHECK(out[i].ecn == Ecn::ect0);
    CHECK(out[i].dscp == s.setup.options.dscp.trimmable);
  }
  CHECK(out[2].write().imm->immediate.value() == 0xCAFE);
  CHECK(s.transmit().empty());
}

TEST_CASE("requester: message numbers count messages, RQMSN only those with immediate") {
  Single s;
  const bool imm[] = {false, true, false, true, true};
  for (const bool i : imm) REQUIRE(s.post({.with_immediate = i}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 5);
  const std::uint16_t rqmsn[] = {0, 0, 0, 1, 2};
  for (std::uint16_t i = 0; i < 5; ++i) {
    CHECK(out[i].write().meth->msn.value() == i);
    CHECK(out[i].write().meth->rqmsn.value() == rqmsn[i]);
  }
}

TEST_CASE("completion: by Transport ACK only, in posting order, signaled ones only") {
  Single s;
  for (std::uint64_t i = 0; i < 6; ++i)
    REQUIRE(s.post({.id = i, .with_immediate = i == 4, .signaled = i % 2 == 0}) == Errc::ok);
  (void)s.transmit();
  s.sack({.cack = 5});
  CHECK(s.sends().empty());  // a SACK is no completion
  CHECK(s.qp().tx.window.empty());
  s.ack(2, 2);
  auto c = s.sends();
  REQUIRE(c.size() == 2);
  CHECK(c[0].wr_id == 0);
  CHECK(c[1].wr_id == 2);
  s.ack(2, 2);  // again
  s.ack(1, 1);  // an older one, late
  CHECK(s.sends().empty());
  CHECK(s.engine.stats().drops.stale == 2);
  s.ack(5, 5);
  c = s.sends();
  REQUIRE(c.size() == 1);
  CHECK(c[0].wr_id == 4);
  CHECK(c[0].opcode == WcOpcode::write_imm);
  CHECK(s.qp().stats.writes_completed == 6);
}

TEST_CASE("completion: a Transport ACK stands for its SACKs too, and never runs ahead") {
  Single s;
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(s.post({.id = i, .length = 3000}) == Errc::ok);
  (void)s.transmit();
  s.ack(0, 2);
  CHECK(s.sends().size() == 1);
  CHECK(s.qp().tx.window.unacked() == s.own + 3);
  s.ack(1, 4);  // names message 1, but a PSN before its end
  CHECK(s.engine.stats().drops.stale == 1);
  for (const unsigned message : {7u, 15u, 16u, 40u, 63u, 64u, 20'000u})
    s.ack(message, 8);  // never sent
  CHECK(s.sends().empty());
  CHECK(s.engine.stats().drops.implausible == 7);
  s.ack(1, 8);  // names message 1, and the end of message 2: the PSN counts
  CHECK(s.sends().size() == 2);
}

TEST_CASE("MPR: a requester stays within the smaller of both limits") {
  for (const auto& [own, remote, packets] :
       {std::tuple{1, 255, 128}, std::tuple{255, 1, 128}, std::tuple{2, 3, 256}}) {
    Single::Setup setup;
    setup.options.cc.algorithm = cc::Algorithm::none;
    setup.attributes.mpr = static_cast<std::uint8_t>(own);
    setup.remote_mpr = static_cast<std::uint8_t>(remote);
    Single s(setup);
    REQUIRE(s.post({.length = 1024 * 1000}) == Errc::ok);
    CHECK(data_of(s.transmit()).size() == static_cast<std::size_t>(packets));
    s.sack({.cack = -1, .offset = 1, .bitmap = ~1ull});  // packets above a hole open nothing
    CHECK(data_of(s.transmit()).empty());
    const SentList lost = data_of(s.advance(43us));
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].psn() == s.own);
    s.sack({.cack = 9});
    CHECK(data_of(s.transmit()).size() == 10);
  }
}

TEST_CASE("Dynamic MPR: shrinks at once for new packets, grows at once, never past the agreement") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  setup.attributes.dynamic_mpr = true;
  setup.remote_dynamic_mpr = true;
  setup.attributes.mpr = 3;
  Single s(setup);
  REQUIRE(s.post({.length = 1024 * 1000}) == Errc::ok);
  REQUIRE(data_of(s.transmit()).size() == 384);
  s.sack({.cack = 99, .mpr = 1});
  CHECK(data_of(s.transmit()).empty());  // 284 are under way, 128 allowed
  s.sack({.cack = 256, .mpr = 1});
  CHECK(data_of(s.transmit()).size() == 1);
  s.sack({.cack = 256, .mpr = 2});
  CHECK(data_of(s.transmit()).size() == 128);
  s.sack({.cack = 256, .mpr = 0});  // says nothing
  CHECK(data_of(s.transmit()).empty());
  s.sack({.cack = 256, .mpr = 200});
  CHECK(data_of(s.transmit()).size() == 128);  // 3 units is the agreement
}

TEST_CASE("Dynamic MPR: retransmissions beyond the new edge wait for the window") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  setup.attributes.dynamic_mpr = setup.remote_dynamic_mpr = true;
  setup.attributes.mpr = 2;
  Single s(setup);
  REQUIRE(s.post({.length = 1024 * 256}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 256);
  s.sack({.cack = -1, .mpr = 1});
  s.nack(out[200], NackReason::trimmed);
  CHECK(data_of(s.transmit()).empty());
  s.sack({.cack = 72, .mpr = 1});  // 200 is just beyond 73 + 127
  CHECK(data_of(s.transmit()).empty() == false);
  s.sack({.cack = 100, .mpr = 1});
  CHECK(s.qp().tx.window.lost() == 0);
}

TEST_CASE("Dynamic MPR: only when both sides have it") {
  for (const bool own : {false, true}) {
    Single::Setup setup;
    setup.options.cc.algorithm = cc::Algorithm::none;
    setup.attributes.dynamic_mpr = own;
    setup.remote_dynamic_mpr = !own;
    setup.attributes.mpr = 2;
    Single s(setup);
    REQUIRE(s.post({.length = 1024 * 1000}) == Errc::ok);
    REQUIRE(data_of(s.transmit()).size() == 256);
    s.sack({.cack = 99, .mpr = 1});
    CHECK(data_of(s.transmit()).size() == 100);
    CHECK(s.engine.set_mpr(s.qpn, 1) == Errc::invalid_state);
  }
}

TEST_CASE("Dynamic MPR: a responder tells its present limit") {
  Single::Setup setup;
  setup.attributes.dynamic_mpr = setup.remote_dynamic_mpr = true;
  setup.attributes.mpr_dest = 8;
  Single s(setup);
  s.data({.n = 0, .ack_request = true});
  CHECK(only(s.transmit(), Opcode::sack).at(0).sack().seth.mpr == 8);
  CHECK(s.engine.set_mpr(s.qpn, 9) == Errc::invalid_argument);
  CHECK(s.engine.set_mpr(s.qpn, 0) == Errc::invalid_argument);
  REQUIRE(s.engine.set_mpr(s.qpn, 2) == Errc::ok);
  s.data({.n = 1, .ack_request = true});
  CHECK(only(s.transmit(), Opcode::sack).at(0).sack().seth.mpr == 2);
  s.data({.n = 1000});  // what was allowed before is still taken ([O-28])
  CHECK(s.qp().rx.window.out_of_order() == 1);
}

TEST_CASE("max_wimm: so many writes with immediate wait for their Transport ACK, not for SACKs") {
  Single::Setup setup;
  setup.attributes.max_wimm = 5;
  setup.remote_wimm = 3;
  Single s(setup);
  for (std::uint64_t i = 0; i < 6; ++i)
    REQUIRE(s.post({.id = i, .with_immediate = i != 1}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 4);  // 0, 2, 3 with immediate, and 1
  s.sack({.cack = 3});
  CHECK(data_of(s.transmit()).empty());
  s.ack(0, 0);
  CHECK(data_of(s.transmit()).size() == 1);
  s.ack(1, 1);  // a plain one frees nothing
  CHECK(data_of(s.transmit()).empty());
  s.ack(3, 3);
  CHECK(data_of(s.transmit()).size() == 1);
}

TEST_CASE("SACK in: bits mean received, clear bits nothing; any offset; nonsense is refused") {
  Single s;
  REQUIRE(s.post({.length = 1024 * 20}) == Errc::ok);
  REQUIRE(data_of(s.transmit()).size() == 20);
  const auto& w = s.qp().tx.window;
  s.sack({.cack = -1, .offset = 1, .bitmap = 0b10});
  CHECK(w.outstanding() == 19);
  s.sack({.cack = 4, .offset = -3, .bitmap = ~0ull});  // up to PSN 64, which was never sent
  CHECK(w.unacked() == s.own + 5);
  CHECK(w.outstanding() == 0);
  s.sack({.cack = 2, .offset = 1, .bitmap = 0});  // overtaken: takes nothing back
  CHECK(w.outstanding() == 0);
  s.sack({.cack = 20});
  CHECK(s.engine.stats().drops.implausible == 1);
  s.sack({.cack = -20'000'0});
  CHECK(s.engine.stats().drops.stale == 1);
  CHECK(s.qp().state == QpState::rts);
  s.sack({.cack = 19});
  CHECK(w.empty());
}

TEST_CASE("NACK in: a trimmed packet goes out at once, by another path of another plane") {
  Single s;
  REQUIRE(s.post({.length = 1024 * 4}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  s.now += 3us;
  s.nack(out[1], NackReason::trimmed);
  const SentList again = data_of(s.transmit());
  REQUIRE(again.size() == 1);
  const wire::WriteView w = again[0].write(), first = out[1].write();
  CHECK(again[0].psn() == out[1].psn());
  CHECK(w.bth->rtx());
  CHECK(w.tseth->tx_timestamp.value() == wire::timestamp_of(s.now));
  CHECK(again[0].dscp == s.setup.options.dscp.trimmable_retx);
  CHECK(again[0].plane != out[1].plane);
  CHECK(w.reth->va.value() == first.reth->va.value());
  CHECK(w.meth->msn.value() == first.meth->msn.value());
  CHECK(std::memcmp(w.payload.data(), first.payload.data(), 1024) == 0);
  CHECK(s.peer_state().paths.health(s.path_of(out[1])) == path::Health::skip);
  CHECK(s.qp().tx.retries.used() == 0);
  CHECK(s.engine.stats().timeouts == 0);
  s.nack(out[1], NackReason::trimmed);  // speaks of the first copy
  CHECK(data_of(s.transmit()).empty());
  CHECK(s.engine.stats().drops.stale == 1);
}

TEST_CASE("NACK in: a trim at the last hop says nothing about the path") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  s.nack(out[0], NackReason::trimmed_last_hop);
  CHECK(data_of(s.transmit()).size() == 1);
  CHECK(s.peer_state().paths.health(s.path_of(out[0])) == path::Health::good);
}

TEST_CASE("NACK in: want of resources costs a retry and a round trip of pause") {
  for (const NackReason reason : {NackReason::no_bitmap, NackReason::no_pkt_buffer,
                                  NackReason::no_resource, NackReason::psn_oor_window}) {
    Single::Setup setup;
    setup.attributes.retry_linear = 2;
    setup.attributes.retry_exponential = 1;
    Single s(setup);
    REQUIRE(s.post({.id = 77}) == Errc::ok);
    SentList out = data_of(s.transmit());
    for (unsigned i = 1; i <= 3; ++i) {
      s.nack(out.at(0), reason);
      CHECK(data_of(s.transmit()).empty());
      CHECK(s.qp().tx.retries.used() == i);
      const Time then = s.now;
      out = data_of(s.advance(30us));
      REQUIRE(out.size() == 1);
      CHECK(out[0].when - then >= s.peer_state().congestion.base_rtt());
    }
    CHECK(s.peer_state().paths.health(s.path_of(out[0])) == path::Health::good);
    s.nack(out.at(0), reason);
    CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
    const auto c = s.sends();
    REQUIRE(c.size() == 1);
    CHECK(c[0].wr_id == 77);
    CHECK(c[0].status == WcStatus::retry_exc_err);
  }
}

TEST_CASE("NACK in: unknown reasons and PSNs that are not under way do nothing") {
  Single s;
  REQUIRE(s.post({.length = 3000}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  s.nack(out[0], static_cast<NackReason>(0x55));
  s.sack({.cack = 0});
  s.nack(out[0], NackReason::trimmed);
  CHECK(s.engine.stats().drops.stale == 2);
  CHECK(data_of(s.transmit()).empty());
  CHECK(s.qp().state == QpState::rts);
}

TEST_CASE("a late NAK for what is complete harms no request that waits to be sent") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {  // on either side of PSN 0
    CAPTURE(seed);
    Single::Setup setup;
    setup.options.secret = {seed, 0};
    Single s(setup);
    REQUIRE(s.post({.id = 1}) == Errc::ok);
    (void)s.transmit();
    s.ack(0, 0);
    REQUIRE(s.sends().size() == 1);
    REQUIRE(s.post({.id = 2}) == Errc::ok);
    s.ack(0, 0, wire::Syndrome::remote_access_error);
    CHECK(s.qp().state == QpState::rts);
    CHECK(s.engine.stats().drops.stale == 1);
  }
}

TEST_CASE("fatal answers: cause, status, and which request gets it") {
  using wire::Syndrome;
  struct Case {
    Syndrome code;
    QpErrorCause cause;
    WcStatus status;
  };
  for (const Case& k : {Case{Syndrome::invalid_request, QpErrorCause::nak_invalid_request,
                             WcStatus::rem_inv_req_err},
                        Case{Syndrome::remote_access_error, QpErrorCause::nak_remote_access,
                             WcStatus::rem_access_err},
                        Case{Syndrome::remote_operational_error,
                             QpErrorCause::nak_remote_operational, WcStatus::rem_op_err}}) {
    Single s;
    for (std::uint64_t i = 0; i < 4; ++i)
      REQUIRE(s.post({.id = i, .length = 2000, .signaled = false}) == Errc::ok);
    (void)s.transmit();
    s.ack(9, 5, k.code);  // the sixth packet is the second one of message 2
    CHECK(s.qp().state == QpState::err);
    CHECK(s.qp().cause == k.cause);
    const auto c = s.sends();
    REQUIRE(c.size() == 4);
    for (std::uint64_t i = 0; i < 4; ++i) {
      CHECK(c[i].wr_id == i);
      CHECK(c[i].status == (i == 2 ? k.status : WcStatus::wr_flush_err));
    }
    CHECK(s.transmit().empty());
    CHECK(s.engine.next_deadline() >= s.now);
    CHECK(s.peer_state().congestion.inflight() == 0);
  }
  Single s;
  REQUIRE(s.post({.id = 5}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  s.nack(out[0], NackReason::unexp_event);
  CHECK(s.qp().cause == QpErrorCause::peer_in_error);
  CHECK(s.sends().at(0).status == WcStatus::rem_op_err);
}

TEST_CASE("NACK in: after the pause everything goes on, also what was posted meanwhile") {
  Single s;
  REQUIRE(s.post({}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  s.nack(out[0], NackReason::no_resource);
  s.sack({.cack = 0});  // it had arrived after all
  s.ack(0, 0);
  REQUIRE(s.post({}) == Errc::ok);
  CHECK(data_of(s.transmit()).empty());
  CHECK(data_of(s.advance(100us)).size() == 1);
  CHECK(s.qp().stats.timeouts == 0);
}

TEST_CASE("NACK in: refusals of one round trip cost one retry, and no longer timer") {
  Single::Setup setup;
  setup.attributes.retry_linear = 0;
  setup.attributes.retry_exponential = 5;
  Single s(setup);
  REQUIRE(s.post({.length = 20'000}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  for (const Sent& p : out) s.nack(p, NackReason::no_resource);
  CHECK(s.qp().tx.window.lost() == out.size());
  CHECK(s.qp().tx.retries.used() == 1);
  CHECK(s.qp().tx.retries.timeout(Duration{0}) == reliability::timeout_value(12));
}

TEST_CASE("requester: a driver whose clock goes back is taken to mean the latest time") {
  Single s;
  s.now += 1ms;
  REQUIRE(s.post({.length = 8 * 1024}) == Errc::ok);
  REQUIRE(data_of(s.transmit()).size() == 8);
  s.now -= 500us;
  REQUIRE(s.post({.length = 8 * 1024}) == Errc::ok);
  const SentList second = data_of(s.transmit());
  REQUIRE(second.size() == 8);
  s.now += 600us;
  s.sack({.cack = 15, .trigger = &second[7]});
  CHECK(s.engine.qp_stats(*s.engine.find_qp(s.qpn)).smoothed_rtt_ns == 100'000);
}
