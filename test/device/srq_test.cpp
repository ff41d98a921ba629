// SPDX-License-Identifier: Apache-2.0
// Shared receive queues: several queue pairs, limit and last-receive events, lanes, misuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lanes_rig.hpp"
#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

/// A sender, and a receiver whose queue pairs share their receives.
struct SrqPair {
  explicit SrqPair(unsigned queue_pairs = 3, const Config& config = test_config(),
                   const SrqOptions& options = {.depth = 64, .sges = 2})
      : a(config), b(Pair::other(config)), srq(b.device.create_srq(options)) {
    for (unsigned i = 0; i < queue_pairs; ++i)
      connect(a.add(), b.add([this](QpOptions& o) { o.srq = &srq; }));
  }
  /// Receives with room for `length` bytes each, at 16 KiB times their wr_id.
  void post_receives(std::uint64_t first, std::uint64_t count, std::size_t length = 16 << 10) {
    for (std::uint64_t id = first; id < first + count; ++id)
      REQUIRE(post_receive(srq, {b.into(id << 14, length)}, id) == Errc::ok);
  }
  RcSide a, b;
  SharedReceiveQueue srq;
};

}  // namespace

TEST_CASE("srq: several queue pairs take the receives, and each message is whole") {
  SrqPair pair(4);
  pair.post_receives(0, 60);
  CHECK(pair.srq.query().posted == 60);
  CHECK(pair.srq.query().users == 4);
  for (std::uint32_t i = 0; i < 60; ++i) {
    const Sge sge = pair.a.sge(1000 * i, 100 + 200 * i);
    SendRequest request;
    request.opcode = SendOpcode::send_imm;
    request.sges = {&sge, 1};
    request.immediate = i;
    REQUIRE(pair.a.qps[i % 4].post_send(request) == Errc::ok);
  }
  std::set<std::uint64_t> taken;
  std::map<Qpn, std::uint32_t> last;
  for (const Completion& done : pair.b.await(60)) {
    REQUIRE(done.status == WcStatus::success);
    const std::uint32_t i = done.immediate;
    CHECK(done.opcode == WcOpcode::recv);
    CHECK(done.qpn == pair.b.qps[i % 4].qpn());
    CHECK(done.byte_len == 100 + 200 * i);
    CHECK(std::equal(pair.a.source.begin() + 1000 * i,
                     pair.a.source.begin() + 1000 * i + done.byte_len,
                     pair.b.target.begin() + static_cast<std::ptrdiff_t>(done.wr_id << 14)));
    CHECK(taken.insert(done.wr_id).second);
    const auto [entry, is_first] = last.emplace(done.qpn, i);
    CHECK((is_first || entry->second < i));  // the messages of a queue pair come in order
    entry->second = i;
  }
  for (const Completion& done : pair.a.await(60)) CHECK(done.status == WcStatus::success);
  CHECK(pair.srq.query().posted == 0);
}

TEST_CASE("srq: a write with immediate takes one, too; without any the message waits") {
  SrqPair pair(2);
  REQUIRE(post(pair.a.qps[1], SendOpcode::write_imm, {pair.a.sge(0, 100)},
               pair.b.target_region.remote(), 1) == Errc::ok);
  REQUIRE(post(pair.a.qps[1], SendOpcode::send, {pair.a.sge(0, 100)}, {}, 2) == Errc::ok);
  const Time end = monotonic_now() + kPatience;
  while (pair.a.qps[1].stats().nacks == 0 && monotonic_now() < end)
    std::this_thread::sleep_for(1ms);
  pair.post_receives(5, 2);
  const auto done = pair.b.await(2);
  CHECK(done[0].opcode == WcOpcode::recv_write_imm);
  CHECK(done[0].wr_id == 5);
  CHECK(done[0].qpn == pair.b.qps[1].qpn());
  CHECK(done[1].opcode == WcOpcode::recv);
  CHECK(done[1].wr_id == 6);
  for (const Completion& c : pair.a.await(2)) CHECK(c.status == WcStatus::success);
}

TEST_CASE("srq: one limit event per set_limit(), when fewer receives are left") {
  SrqPair pair(1);
  pair.post_receives(0, 4);
  REQUIRE(pair.srq.set_limit(3) == Errc::ok);
  CHECK(pair.srq.query().limit == 3);
  const auto send_one = [&] {
    REQUIRE(post(pair.a.qps[0], SendOpcode::send, {pair.a.sge(0, 8)}) == Errc::ok);
    REQUIRE(pair.b.await_one().status == WcStatus::success);
    REQUIRE(pair.a.await_one().status == WcStatus::success);
  };
  DeviceEvent event;
  send_one();  // 3 are left
  CHECK_FALSE(pair.b.device.poll_event(event));
  send_one();
  event = await_event(pair.b.device, DeviceEvent::Kind::srq_limit);
  CHECK(event.srq == pair.srq.id());
  send_one();
  CHECK_FALSE(pair.b.device.poll_event(event));
  REQUIRE(pair.srq.set_limit(2) == Errc::ok);  // 1 is left: at once
  CHECK(await_event(pair.b.device, DeviceEvent::Kind::srq_limit).srq == pair.srq.id());
  CHECK(pair.srq.set_limit(64) == Errc::ok);
  CHECK(pair.srq.set_limit(65) == Errc::invalid_argument);
  CHECK(pair.srq.set_limit(0) == Errc::ok);
}

TEST_CASE("srq: a queue pair in ERR says when it takes no more; what is left is for the others") {
  SrqPair pair(2);
  pair.post_receives(0, 3);
  REQUIRE(pair.b.qps[0].to_error() == Errc::ok);
  const DeviceEvent event = await_event(pair.b.device, DeviceEvent::Kind::last_wqe);
  CHECK(event.qpn == pair.b.qps[0].qpn());
  CHECK(pair.srq.query().posted == 3);  // not flushed
  REQUIRE(post(pair.a.qps[1], SendOpcode::send, {pair.a.sge(0, 8)}) == Errc::ok);
  const Completion done = pair.b.await_one();
  CHECK(done.status == WcStatus::success);
  CHECK(done.qpn == pair.b.qps[1].qpn());
  DeviceEvent other;
  while (pair.b.device.poll_event(other)) CHECK(other.kind != DeviceEvent::Kind::last_wqe);
}

TEST_CASE("srq: events of what was closed are gone") {
  SrqPair pair(1);
  REQUIRE(pair.srq.set_limit(1) == Errc::ok);
  REQUIRE(pair.b.qps[0].to_error() == Errc::ok);
  REQUIRE(pair.b.qps[0].close() == Errc::ok);
  REQUIRE(pair.srq.close() == Errc::ok);
  DeviceEvent event;
  CHECK_FALSE(pair.b.device.poll_event(event));
}

TEST_CASE("srq: requests that do not fit, and what the queue holds on to") {
  const SrqOptions options{.depth = 2, .sges = 2};
  SrqPair pair(1, test_config(), options);
  const SrqInfo info = pair.srq.query();
  CHECK(info.pd == pair.b.device.default_pd());
  CHECK(info.depth == 2);
  CHECK(info.sges == 2);
  CHECK(info.limit == 0);
  CHECK(pair.b.qps[0].query().srq == pair.srq.id());
  CHECK_FALSE(pair.a.qps[0].query().srq.has_value());
  CHECK(pair.b.device.stats().srqs == 1);

  const Sge sge = pair.b.into(0, 8);
  CHECK(post_receive(pair.srq, {sge, sge, sge}) == Errc::too_many_sges);
  CHECK(post_receive(pair.srq, {pair.b.sge(0, 8)}) == Errc::access_denied);
  CHECK(post_receive(pair.srq, {Sge{sge.address, 8, sge.lkey + 1}}) == Errc::invalid_lkey);
  CHECK(post_receive(pair.b.qps[0], {sge}) == Errc::unsupported);  // its receives are the SRQ's
  const std::vector<ReceiveRequest> three(3, ReceiveRequest{1, {&sge, 1}});
  std::size_t posted = 9;
  CHECK(pair.srq.post_receives(three, posted) == Errc::queue_full);
  CHECK(posted == 2);
  CHECK(pair.b.target_region.close() == Errc::in_use);
  CHECK(pair.srq.close() == Errc::in_use);
  CHECK(pair.srq.query().posted == 2);
  REQUIRE(pair.b.qps[0].close() == Errc::ok);
  CHECK(pair.srq.close() == Errc::ok);
  CHECK(pair.b.target_region.close() == Errc::ok);
  CHECK(pair.b.device.stats().srqs == 0);

  CHECK(pair.srq.close() == Errc::not_found);
  CHECK(pair.srq.post_receive({}) == Errc::not_found);
  CHECK(pair.srq.post_receives(three, posted) == Errc::not_found);
  CHECK(posted == 0);
  CHECK(pair.srq.set_limit(1) == Errc::not_found);
  CHECK(thrown_by([&] { (void)pair.srq.query(); }).code() == Errc::not_found);
  CHECK(pair.srq.id() == SrqId{});
  const Error closed = thrown_by([&] { pair.b.add([&](QpOptions& o) { o.srq = &pair.srq; }); });
  CHECK(closed.code() == Errc::invalid_argument);
  CHECK(contains(closed.what(), "shared receive queue is closed"));
}

TEST_CASE("srq: options out of range") {
  Side side(test_config(), 4096);
  for (const SrqOptions& options : {SrqOptions{.depth = 0}, SrqOptions{.depth = 32'769},
                                    SrqOptions{.sges = 0}, SrqOptions{.sges = 65}}) {
    const Error error = thrown_by([&] { (void)side.device.create_srq(options); });
    CHECK(error.code() == Errc::invalid_argument);
    CHECK(contains(error.what(), "shared receive queue of " + std::to_string(options.depth) +
                                     " requests with up to " + std::to_string(options.sges)));
  }
  CHECK(thrown_by([&] { (void)side.device.create_srq({.pd = PdId{77}}); }).code() ==
        Errc::not_found);
  const PdId pd = side.device.alloc_pd();
  auto srq = side.device.create_srq({.pd = pd});
  CHECK(side.device.dealloc_pd(pd) == Errc::in_use);
  auto moved = std::move(srq);
  CHECK(srq.close() == Errc::not_found);
  CHECK(moved.query().pd == pd);
  moved = SharedReceiveQueue();
  CHECK(side.device.dealloc_pd(pd) == Errc::ok);
}

TEST_CASE("srq: queue pairs go to the lane of their queue, and queues spread over the lanes") {
  RcSide side(lanes_config(3), 4096);
  const unsigned lanes = side.device.lane_count();
  REQUIRE(lanes == 3);
  std::vector<SharedReceiveQueue> queues;
  std::set<unsigned> used;
  std::set<std::uint32_t> ids;
  for (unsigned i = 0; i < lanes; ++i) {
    queues.push_back(side.device.create_srq());
    used.insert(queues[i].lane());
    ids.insert(static_cast<std::uint32_t>(queues[i].id()));
  }
  CHECK(used.size() == 3);
  CHECK(ids.size() == 3);
  for (const SharedReceiveQueue& srq : queues)
    for (int n = 0; n < 2; ++n) {
      const QueuePair& qp = side.add([&](QpOptions& o) { o.srq = &srq; });
      CHECK(qp.lane() == srq.lane());
      CHECK(qp.query().srq == srq.id());
    }
  CHECK(side.device.create_srq({.lane = 2}).lane() == 2);
  const Error far = thrown_by([&] { (void)side.device.create_srq({.lane = 3}); });
  CHECK(contains(far.what(), "SrqOptions::lane is 3, and the device has lanes 0 .. 2"));
  const unsigned wrong = (queues[0].lane() + 1) % 3;
  const Error other = thrown_by([&] {
    side.add([&](QpOptions& o) {
      o.srq = &queues[0];
      o.lane = wrong;
    });
  });
  CHECK(other.code() == Errc::invalid_argument);
  CHECK(contains(other.what(), "leave the option unset"));
  // Another device's queue.
  Side foreign(Pair::other(test_config()), 4096);
  const auto theirs = foreign.device.create_srq();
  CHECK(thrown_by([&] { side.add([&](QpOptions& o) { o.srq = &theirs; }); }).code() ==
        Errc::invalid_argument);
}

TEST_CASE("srq: a limit event names the queue of its lane") {
  RcSide side(lanes_config(2), 4096);
  auto first = side.device.create_srq({.lane = 0}), second = side.device.create_srq({.lane = 1});
  CHECK(first.id() != second.id());
  for (SharedReceiveQueue* srq : {&second, &first}) {
    REQUIRE(srq->set_limit(1) == Errc::ok);
    CHECK(await_event(side.device, DeviceEvent::Kind::srq_limit).srq == srq->id());
  }
}

TEST_CASE("srq: a handle keeps the device alive") {
  std::optional<SharedReceiveQueue> srq;
  {
    Side side(test_config(), 4096);
    srq = side.device.create_srq({.depth = 4});
  }
  CHECK(srq->query().depth == 4);
  CHECK(srq->post_receive({}) == Errc::ok);
}
