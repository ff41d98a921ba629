// SPDX-License-Identifier: Apache-2.0
// Peers that go, and connections that are made anew.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace peer_test {

/// What impatient_config() amounts to: 4 x 1 ms and 2 + 4 + .. + 256 ms.
constexpr Duration kRetries = 514ms;

/// Fills the send queue with writes of which the peer will not see the end, since it is about to
/// go. Returns how many were posted.
std::size_t fill_queue(Side& from, QueuePair& qp, Side& to, std::size_t first = 0) {
  to.device.set_faults("blackhole");
  std::size_t posted = first;
  while (post_copy(from, qp, to, 0, from.source.size(), posted) == Errc::ok) ++posted;
  return posted - first;
}

TEST_CASE("a peer that dies in the middle: every request completes, the cause has names") {
  Side a(impatient_config(), 1 << 20);
  auto b = std::make_unique<Side>(impatient_config("loopback:2", 2), 1 << 20);
  connect(a.add_qp(), b->add_qp());
  std::size_t posted = 0;
  for (; posted < 64; ++posted)
    REQUIRE(post_copy(a, a.qps[0], *b, 0, a.source.size(), posted) == Errc::ok);
  CHECK(eventually([&] { return b->qps[0].stats().rx_packets >= 100; },
                   [&] { (void)a.device.progress(); }));
  posted += fill_queue(a, a.qps[0], *b, posted);
  const std::string peer = b->device.plane_names()[0] + ", " + b->device.plane_names()[1];
  b.reset();
  const Time start = monotonic_now();
  const auto all = a.await(posted);
  const Duration time = monotonic_now() - start;
  CHECK(time >= kRetries / 4);
  CHECK(time < kPatience);
  std::size_t failed = 0;
  for (std::size_t i = 0; i < posted; ++i) {
    CHECK(all[i].wr_id == i);  // in order, none twice
    if (all[i].status == WcStatus::success) {
      CHECK(failed == 0);
      continue;
    }
    CHECK(all[i].status == (failed == 0 ? WcStatus::retry_exc_err : WcStatus::wr_flush_err));
    ++failed;
  }
  CHECK(failed > 0);
  CHECK(a.qps[0].state() == QpState::err);
  CHECK(a.qps[0].error_cause() == QpErrorCause::retry_exhausted);
  const std::string text = a.qps[0].error_text();
  CAPTURE(text);
  CHECK(contains(text, "peer does not answer"));
  CHECK(contains(text, "peer " + peer));
  CHECK(contains(text, "on 8 paths"));
  CHECK_FALSE(contains(text, "tried 0 timeouts"));
  CHECK_FALSE(contains(text, "no UDP packet"));
  CHECK(a.qps[0].stats().timeouts > 0);
  Completion more;
  CHECK(a.cq.poll({&more, 1}) == 0);
}

TEST_CASE("a peer of which nothing has ever arrived: the cause names the ports") {
  Side a(impatient_config(), 4096), b(impatient_config("loopback:2", 2), 4096);
  b.device.set_faults("loss=1");
  connect(a.add_qp(), b.add_qp());
  REQUIRE(post_copy(a, a.qps[0], b, 0, 64, 7) == Errc::ok);
  CHECK(a.await(1)[0].status == WcStatus::retry_exc_err);
  CHECK(contains(a.qps[0].error_text(), "no UDP packet of it has arrived: are UDP ports "));
}

TEST_CASE("a device goes on after its peer died") {
  Side a(impatient_config(), 256 << 10);
  a.qps.reserve(8);
  for (std::uint64_t life = 0; life < 3; ++life) {
    CAPTURE(life);
    // Each comes back at the same address and slot, as a process that is started again.
    auto b = std::make_unique<Side>(impatient_config("loopback:2", 10 + life), 256 << 10);
    QueuePair& qp = a.add_qp();
    connect(qp, b->add_qp());
    REQUIRE(post_copy(a, qp, *b, 0, a.source.size()) == Errc::ok);
    REQUIRE(a.await_one().status == WcStatus::success);
    CHECK(a.source == b->target);
    if (life == 2) break;
    const std::size_t posted = fill_queue(a, qp, *b);
    b.reset();
    CHECK(a.await(posted).back().status != WcStatus::success);
  }
  CHECK(a.device.stats().peers == 3);
  a.qps.clear();
  CHECK(a.device.stats().peers == 0);
}

TEST_CASE("the device of a dead queue pair serves its other peers") {
  Side a(impatient_config(), 256 << 10);
  auto dying = std::make_unique<Side>(impatient_config("loopback:2", 2), 256 << 10);
  Side other(impatient_config("loopback:2", 3), 256 << 10);
  a.qps.reserve(2);
  connect(a.add_qp(), dying->add_qp());
  connect(a.add_qp(), other.add_qp());
  const std::size_t lost = fill_queue(a, a.qps[0], *dying);
  dying.reset();
  REQUIRE(post_copy(a, a.qps[1], other, 0, a.source.size(), 1000) == Errc::ok);
  std::size_t good = 0;
  for (const Completion& c : a.await(lost + 1)) {
    if (c.wr_id != 1000) continue;
    CHECK(c.status == WcStatus::success);
    ++good;
  }
  CHECK(good == 1);
  CHECK(a.source == other.target);
  CHECK(a.qps[1].state() == QpState::rts);
  CHECK(a.qps[0].state() == QpState::err);
}

TEST_CASE("all planes down: the cause says so") {
  Pair pair(impatient_config(), impatient_config("loopback:2", 2), 64 << 10);
  pair.copy_all();
  pair.a.device.set_faults("down");
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 1000) == Errc::ok);
  CHECK(pair.a.await_one().status == WcStatus::retry_exc_err);
  const std::string text = pair.a.qps[0].error_text();
  CAPTURE(text);
  CHECK(contains(text, "no plane is up"));
}

TEST_CASE("reset and connect again, also out of ERR and in the middle of a transfer") {
  Pair pair(test_config(), 256 << 10);
  QueuePair &a = pair.a.qps[0], &b = pair.b.qps[0];
  const Qpn qpn = a.qpn();
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    pair.copy_all();
    const Psn before = a.local_info().start_psn;
    const std::uint64_t acknowledged = a.stats().writes_completed;
    if (round % 3 == 1) {
      CHECK(a.to_error() == Errc::ok);
    } else if (round % 3 == 2) {  // packets of the old connection are still under way
      pair.b.device.set_faults("delay=5ms");
      for (int i = 0; i < 8; ++i) REQUIRE(post_copy(pair.a, a, pair.b, 0, 100'000) == Errc::ok);
    }
    CHECK(a.reset() == Errc::ok);
    CHECK(b.reset() == Errc::ok);
    // A reset completes nothing; on a busy machine the peer has acknowledged some before.
    std::uint64_t early = 0;
    for (Completion c; pair.a.cq.poll({&c, 1}) == 1; ++early) CHECK(c.status == WcStatus::success);
    CHECK(early == a.stats().writes_completed - acknowledged);
    CHECK(a.state() == QpState::reset);
    CHECK(a.error_text().empty());
    CHECK(a.qpn() == qpn);
    CHECK(a.local_info().start_psn != before);
    CHECK(pair.a.device.stats().peers == 0);
    CHECK(pair.a.source_region.close() == Errc::ok);  // a reset lets go of memory
    pair.a.source_region = pair.a.device.register_memory(std::span(pair.a.source), Access::none);
    connect(a, b);
    pair.copy_all();
    pair.b.device.set_faults("");
  }
  Completion none;
  CHECK(pair.a.cq.poll({&none, 1}) == 0);
}

TEST_CASE("writing before the peer has connected") {
  Side a(test_config(), 64 << 10), b(test_config("loopback:2", 2), 64 << 10);
  QueuePair &one = a.add_qp(), &two = b.add_qp();
  one.connect(two.local_info());
  REQUIRE(post_copy(a, one, b, 0, a.source.size()) == Errc::ok);
  std::this_thread::sleep_for(20ms);
  two.connect(one.local_info());
  CHECK(a.await_one().status == WcStatus::success);
  CHECK(a.source == b.target);
}

TEST_CASE("who claims to be another device does not get its connections") {
  const auto claims = {
      +[](ConnectionInfo& info) { info.planes[0].udp_port += 7, info.planes[1].udp_port += 7; },
      +[](ConnectionInfo& info) { info.planes.resize(1); },
      +[](ConnectionInfo& info) { info.receive_window = 1; },
      +[](ConnectionInfo& info) {
        info.slot = 77;
        info.qpn = Qpn{77u << 16 | 3u};
      }};
  for (const auto& claim : claims) {
    Side a(test_config(), 64 << 10), b(test_config("loopback:2", 2), 64 << 10);
    a.qps.reserve(2);
    b.qps.reserve(2);
    ConnectionInfo info = b.add_qp().local_info();
    claim(info);
    a.add_qp().connect(info);
    connect(a.add_qp(), b.add_qp());
    CHECK(a.device.stats().peers == 2);
    REQUIRE(post_copy(a, a.qps[1], b, 0, a.source.size()) == Errc::ok);
    CHECK(a.await_one().status == WcStatus::success);
    CHECK(a.source == b.target);
  }
}

}  // namespace peer_test
