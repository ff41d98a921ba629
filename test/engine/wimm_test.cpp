// SPDX-License-Identifier: Apache-2.0
// Write with immediate, responder side: order, barrier, limits.
#include <doctest/doctest.h>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using wire::Opcode;

namespace wimm_test {

Single::Data imm(std::uint32_t n, std::uint32_t rqmsn) {
  return {
      .n = n, .opcode = Opcode::write_only_imm, .rqmsn = rqmsn, .msn = n, .immediate = 100 + rqmsn};
}

TEST_CASE("WriteImm: delivered in RQMSN order, the receives used in posting order") {
  Single s;
  s.data(imm(2, 2));
  s.data(imm(1, 1));
  CHECK(s.receives().empty());
  s.data(imm(0, 0));
  const auto c = s.receives();
  REQUIRE(c.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(c[i].wr_id == 1000 + i);
    CHECK(c[i].immediate == 100 + i);
    CHECK(c[i].byte_len == 64);
    CHECK(c[i].qpn == s.qpn);
    CHECK(c[i].status == WcStatus::success);
    CHECK(c[i].opcode == WcOpcode::recv_write_imm);
  }
}

TEST_CASE("WriteImm: a barrier for plain writes in front of it") {
  Single s;
  s.data({.n = 0, .msn = 0});
  s.data(imm(2, 0));
  s.data({.n = 3, .msn = 3});  // a later one does not matter
  CHECK(s.receives().empty());
  s.data({.n = 1, .msn = 1});
  CHECK(s.receives().size() == 1);
}

TEST_CASE("WriteImm: a message of many packets is delivered once, with its whole length") {
  Single s;
  const auto part = [](std::uint32_t n, Opcode op, std::uint32_t length) {
    return Single::Data{.n = n,
                        .opcode = op,
                        .offset = n * 1024,
                        .length = length,
                        .dma_length = 2048 + 100,
                        .immediate = 5};
  };
  s.data(part(2, Opcode::write_last_imm, 100));
  s.data(part(0, Opcode::write_first, 1024));
  CHECK(s.receives().empty());
  s.data(part(1, Opcode::write_middle, 1024));
  s.data(part(2, Opcode::write_last_imm, 100));
  const auto c = s.receives();
  REQUIRE(c.size() == 1);
  CHECK(c[0].byte_len == 2148);
}

TEST_CASE("WriteImm: without a receive NAK 0x63, and never a Transport ACK that covers it") {
  Single::Setup setup;
  setup.receives = 1;
  Single s(setup);
  s.data(imm(0, 0));
  s.data({.n = 1, .msn = 1});  // their Transport ACK still waits when the next one fails
  s.data(imm(2, 1));
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::no_receive);
  const SentList acks = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(acks.size() == 2);
  CHECK(acks[0].ack().aeth.code() == wire::Syndrome::ack);
  CHECK(acks[0].ack().aeth.msn.value() == 1);
  CHECK(acks[0].psn() == s.first + 1);
  CHECK(acks[1].ack().aeth.code() == wire::Syndrome::remote_operational_error);
  CHECK(acks[1].psn() == s.first + 2);
}

TEST_CASE("WriteImm: a full completion queue fails both sides, and is not acknowledged") {
  Single s;
  const CqId tiny = *s.engine.create_cq(1);
  s.receive_cq = tiny;
  REQUIRE(s.engine.destroy_qp(s.qpn) == Errc::ok);
  s.qpn = s.create();
  s.connect();
  s.data(imm(0, 0));
  s.data(imm(1, 1));
  CHECK(s.qp().state == QpState::err);
  CHECK(s.qp().cause == QpErrorCause::cq_overrun);
  const SentList acks = only(s.transmit(), Opcode::acknowledge);
  REQUIRE(acks.size() == 2);
  CHECK(acks[0].ack().aeth.msn.value() == 0);
  CHECK(acks[1].ack().aeth.code() == wire::Syndrome::remote_operational_error);
}

TEST_CASE("WriteImm: more in flight than agreed, or a number twice, is NAK 0x61") {
  Single::Setup setup;
  setup.attributes.max_wimm_dest = 4;
  {
    Single s(setup);
    s.data(imm(3, 3));
    CHECK(s.qp().state == QpState::rts);
    s.data(imm(4, 4));
    CHECK(s.qp().cause == QpErrorCause::wimm_overflow);
    CHECK(only(s.transmit(), Opcode::acknowledge).at(0).ack().aeth.code() ==
          wire::Syndrome::invalid_request);
  }
  {
    Single s(setup);
    s.data(imm(1, 1));
    s.data(imm(2, 1));
    CHECK(s.qp().cause == QpErrorCause::bad_rqmsn);
  }
}

TEST_CASE("WriteImm: numbers that begin at 1, or leave one out, are NAK 0x61") {
  const auto refused = [](Single& s, std::uint32_t n, std::uint32_t acks) {
    CHECK(s.qp().state == QpState::err);
    CHECK(s.qp().cause == QpErrorCause::bad_rqmsn);
    const SentList answers = only(s.transmit(), Opcode::acknowledge);
    REQUIRE(answers.size() == acks + 1);
    if (acks > 0) CHECK(answers[0].psn().before(s.first + static_cast<std::int32_t>(n)));
    CHECK(answers.back().ack().aeth.code() == wire::Syndrome::invalid_request);
    CHECK(answers.back().psn() == s.first + static_cast<std::int32_t>(n));
  };
  {
    Single s;
    s.data({.n = 0, .msn = 0});
    s.data(imm(1, 1));
    refused(s, 1, 1);
    for (const Completion& c : s.receives()) CHECK(c.status == WcStatus::wr_flush_err);
  }
  {
    Single s;
    s.data(imm(0, 0));
    s.data(imm(3, 2));
    s.data({.n = 2, .msn = 2});
    CHECK(s.qp().state == QpState::rts);  // number 1 may be PSN 1
    s.data({.n = 1, .msn = 1});
    refused(s, 3, 1);
    const auto c = s.receives();
    CHECK(c.at(0).status == WcStatus::success);  // number 0
    CHECK(c.at(1).status == WcStatus::wr_flush_err);
  }
}

TEST_CASE("WriteImm: receives can be posted from INIT on, and are used in RTR too") {
  Single::Setup setup;
  setup.rts = false;
  Single s(setup);
  s.data(imm(0, 0));
  CHECK(s.receives().size() == 1);
  CHECK(s.post({}) == Errc::invalid_state);
  CHECK(s.engine.post_receive(s.qpn, 1) == Errc::ok);
  for (unsigned i = 0; i < 48; ++i) CHECK(s.engine.post_receive(s.qpn, 1) == Errc::ok);
  CHECK(s.engine.post_receive(s.qpn, 1) == Errc::queue_full);
}

}  // namespace wimm_test
