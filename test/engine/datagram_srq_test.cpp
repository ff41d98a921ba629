// SPDX-License-Identifier: Apache-2.0
// Datagram queue pairs whose receives come from a shared queue, in virtual time.
#include <doctest/doctest.h>

#include <vector>

#include "support/datagrams.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace datagram_srq_test {

DatagramSetup with_rc() {
  DatagramSetup setup;
  setup.pair.rc = true;
  return setup;
}

/// Two engines with a datagram queue pair each, and a shared receive queue in the second one.
struct SharedDatagrams : Datagrams {
  SharedDatagrams() : Datagrams(with_rc()) { srq = *b().create_srq(pair.pd(1), 16, 2); }

  [[nodiscard]] engine::DatagramInit init() {
    engine::DatagramInit init;
    init.pd = pair.pd(1);
    init.send_cq = ends[1].send_cq;
    init.receive_cq = ends[1].receive_cq;
    init.capacity = setup.capacity;
    init.srq = srq;
    return init;
  }
  /// A queue pair in RTS that takes its receives there.
  Qpn add() {
    const Result<Qpn> qpn = create_datagram_qp(b(), init());
    REQUIRE(qpn.ok());
    start(1, qpn.value());
    return qpn.value();
  }
  /// Posts a receive of that many bytes of a slot, which is its wr_id.
  Errc share(std::uint32_t slot, std::uint32_t bytes = kSlot) {
    const Sge sge{target(1, slot), bytes, ends[1].target_key};
    return b().post_receive(srq, {slot, {&sge, 1}});
  }
  [[nodiscard]] std::size_t left() { return b().find_srq(srq)->receives.size(); }
  [[nodiscard]] std::vector<engine::EngineEvent> events() {
    std::vector<engine::EngineEvent> all;
    engine::EngineEvent event;
    while (b().poll_event(event)) all.push_back(event);
    return all;
  }

  SrqId srq{};
};

using Kind = engine::EngineEvent::Kind;

TEST_CASE("datagram: several queue pairs, and a connection, take receives of a shared queue") {
  SharedDatagrams d;
  const Qpn first = d.add(), second = d.add();
  engine::QpInit init;
  init.capacity = {.send = 8, .receive = 8, .send_sges = 1, .receive_sges = 2};
  std::array<Qpn, 2> connected{};
  for (unsigned side = 0; side < 2; ++side) {
    init.pd = d.pair.pd(side);
    init.send_cq = d.ends[side].send_cq;
    init.receive_cq = d.ends[side].receive_cq;
    if (side == 1) init.srq = d.srq;
    connected[side] = *d.pair[side].create_qp(init);
  }
  d.pair.connect(connected[0], connected[1]);
  CHECK(d.b().find_srq(d.srq)->users == 3);
  for (std::uint32_t slot = 0; slot < 4; ++slot) REQUIRE(d.share(slot) == Errc::ok);
  REQUIRE(d.b().set_srq_limit(d.srq, 2) == Errc::ok);

  REQUIRE(d.post(0, {.offset = 10, .length = 100, .remote = second}) == Errc::ok);
  d.pair.run_for(1ms);
  const Sge sge{d.ends[0].source.data() + 20, 1200, d.ends[0].source_key};
  REQUIRE(d.a().post_send(connected[0], {.opcode = SendOpcode::send, .sges = {&sge, 1}},
                          d.pair.now()) == Errc::ok);
  d.pair.run_for(1ms);
  CHECK(d.events().empty());
  REQUIRE(d.post(0, {.offset = 30, .length = 300, .immediate = 7, .remote = first}) == Errc::ok);
  d.pair.run_for(1ms);
  const auto events = d.events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == Kind::srq_limit);
  CHECK(events[0].srq == d.srq);

  const auto got = d.receives(1);
  REQUIRE(got.size() == 3);
  const Qpn takers[] = {second, connected[1], first};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(got[i].status == WcStatus::success);
    CHECK(got[i].opcode == WcOpcode::recv);
    CHECK(got[i].wr_id == i);
    CHECK(got[i].qpn == takers[i]);
  }
  CHECK(got[0].byte_len == 100 + kGrhBytes);
  CHECK(got[1].byte_len == 1200);  // no header in front of a SEND
  CHECK(got[2].immediate == 7);
  CHECK(d.holds(1, 0, 10, 100));
  CHECK(std::memcmp(d.target(1, 1), sge.address, sge.length) == 0);
  CHECK(d.holds(1, 2, 30, 300));
  CHECK(d.left() == 1);
  // The queue pair with receives of its own took none of these.
  REQUIRE(d.post(0, {}) == Errc::ok);
  d.pair.run_for(1ms);
  CHECK(d.left() == 1);
  CHECK(d.b().stats().drops.no_receive == 1);
}

TEST_CASE("datagram: an empty shared queue drops, and posting to one of its users is refused") {
  SharedDatagrams d;
  const Qpn qpn = d.add();
  const Sge sge{d.target(1, 0), 2000, d.ends[1].target_key};
  CHECK(post_datagram_receive(d.b(), qpn, {1, {&sge, 1}}) == Errc::unsupported);
  REQUIRE(d.post(0, {.remote = qpn}) == Errc::ok);
  d.pair.run_for(1ms);
  CHECK(d.receives(1).empty());
  CHECK(find_datagram_qp(d.b(), qpn)->stats.no_receive == 1);
  CHECK(find_datagram_qp(d.b(), qpn)->state == QpState::rts);
  REQUIRE(d.share(3) == Errc::ok);
  REQUIRE(d.post(0, {.remote = qpn}) == Errc::ok);
  d.pair.run_for(1ms);
  CHECK(d.receives(1).size() == 1);

  engine::DatagramInit unknown = d.init();
  unknown.srq = SrqId{99};
  CHECK(create_datagram_qp(d.b(), unknown).error() == Errc::not_found);
  CHECK(d.b().destroy_srq(d.srq) == Errc::in_use);
  REQUIRE(destroy_datagram_qp(d.b(), qpn) == Errc::ok);
  CHECK(d.b().destroy_srq(d.srq) == Errc::ok);
  CHECK(d.b().deregister_memory(d.ends[1].target_key) == Errc::ok);
}

TEST_CASE("datagram: a receive of a shared queue that is too short fails one queue pair only") {
  SharedDatagrams d;
  const Qpn first = d.add(), second = d.add();
  REQUIRE(d.share(0, kGrhBytes + 99) == Errc::ok);
  REQUIRE(d.share(1) == Errc::ok);
  REQUIRE(d.share(2) == Errc::ok);
  REQUIRE(d.b().set_srq_limit(d.srq, 3) == Errc::ok);
  REQUIRE(d.post(0, {.length = 100, .remote = first}) == Errc::ok);
  d.pair.run_for(1ms);
  REQUIRE(d.post(0, {.offset = 5, .length = 100, .remote = second}) == Errc::ok);
  d.pair.run_for(1ms);
  const auto got = d.receives(1);
  REQUIRE(got.size() == 2);
  CHECK(got[0].status == WcStatus::loc_len_err);
  CHECK(got[0].wr_id == 0);
  CHECK(got[0].qpn == first);
  CHECK(got[1].status == WcStatus::success);
  CHECK(got[1].qpn == second);
  CHECK(d.holds(1, 1, 5, 100));
  CHECK(d.left() == 1);  // nobody else's are flushed
  CHECK(find_datagram_qp(d.b(), first)->cause == QpErrorCause::receive_too_short);
  CHECK(find_datagram_qp(d.b(), second)->state == QpState::rts);
  const auto events = d.events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].kind == Kind::qp_error);
  CHECK(events[1].kind == Kind::last_wqe);
  CHECK(events[1].qpn == first);
  CHECK(events[2].kind == Kind::srq_limit);
  // By the program's own wish it is told, too.
  REQUIRE(modify_datagram_qp(d.b(), second, {QpState::err, {}, {}}) == Errc::ok);
  const auto last = d.events();
  REQUIRE(last.size() == 2);
  CHECK(last[1].kind == Kind::last_wqe);
  CHECK(last[1].qpn == second);
}

TEST_CASE("datagram: memory of a shared queue that was withdrawn is not written to") {
  SharedDatagrams d;
  const Qpn qpn = d.add();
  REQUIRE(d.share(0) == Errc::ok);
  REQUIRE(d.share(1) == Errc::ok);
  REQUIRE(d.b().deregister_memory(d.ends[1].target_key, true) == Errc::ok);
  CHECK(find_datagram_qp(d.b(), qpn)->state == QpState::rts);
  REQUIRE(d.post(0, {.remote = qpn}) == Errc::ok);
  d.pair.run_for(1ms);
  const auto got = d.receives(1);
  REQUIRE(got.size() == 1);
  CHECK(got[0].status == WcStatus::wr_flush_err);
  CHECK(d.target(1, 0)[0] == 0xEE);
  CHECK(find_datagram_qp(d.b(), qpn)->cause == QpErrorCause::memory_withdrawn);
  CHECK(d.left() == 1);
}

}  // namespace datagram_srq_test
