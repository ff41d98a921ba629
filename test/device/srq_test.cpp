// SPDX-License-Identifier: Apache-2.0
// Shared receive queues: handles, events of closed ones, lanes, misuse.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lanes_rig.hpp"
#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace srq_test {

/// A sender, and a receiver whose queue pair takes its receives from a shared queue.
struct SrqPair {
  explicit SrqPair(const SrqOptions& options = {})
      : a(test_config()), b(Pair::other(test_config())), srq(b.device.create_srq(options)) {
    connect(a.add(), b.add([this](QpOptions& o) { o.srq = &srq; }));
  }
  RcSide a, b;
  SharedReceiveQueue srq;
};

TEST_CASE("srq: events of what was closed are gone") {
  SrqPair pair;
  REQUIRE(pair.srq.set_limit(1) == Errc::ok);
  REQUIRE(pair.b.qps[0].to_error() == Errc::ok);
  REQUIRE(pair.b.qps[0].close() == Errc::ok);
  REQUIRE(pair.srq.close() == Errc::ok);
  DeviceEvent event;
  CHECK_FALSE(pair.b.device.poll_event(event));
}

TEST_CASE("srq: requests that do not fit, and what the queue holds on to") {
  SrqPair pair({.depth = 2, .sges = 2});
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
    CHECK(contains(error.what(), options.sges == 0 || options.sges == 65
                                     ? "creating a shared receive queue: sges is"
                                     : "creating a shared receive queue: depth is"));
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

}  // namespace srq_test
