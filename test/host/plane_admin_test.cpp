// SPDX-License-Identifier: Apache-2.0
// Planes that an administrator takes out of use: nothing leaves in them, nothing that arrives in
// them counts, and queue pairs go on over the others.
#include <doctest/doctest.h>

#include <optional>
#include <thread>

#include "device/gid_rig.hpp"
#include "device/lanes_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace plane_admin_test {

/// The next event of a plane, which must come.
DeviceEvent next_event(Device& device) {
  DeviceEvent event;
  REQUIRE(eventually([&] { return device.poll_event(event); }));
  return event;
}
bool is(const DeviceEvent& event, DeviceEvent::Kind kind, Plane plane) {
  return event.kind == kind && event.plane == plane;
}
std::uint64_t sent_in(const Device& device, unsigned plane) {
  return device.stats().planes[plane].port.tx_packets;
}
using Kind = DeviceEvent::Kind;

TEST_CASE("plane administration: a disabled plane carries nothing, and the others everything") {
  Pair pair;
  Device& a = pair.a.device;
  CHECK(a.plane_state(1) == PlaneState{true, true});
  pair.copy_all();
  REQUIRE(sent_in(a, 1) > 0);

  a.set_plane_enabled(1, false);
  const std::uint64_t sent = sent_in(a, 1);
  CHECK(a.plane_state(1) == PlaneState{false, false});
  CHECK(a.plane_state(0) == PlaneState{true, true});
  CHECK(is(next_event(a), Kind::plane_down, 1));
  CHECK(!a.stats().planes[1].enabled);
  a.set_plane_enabled(1, false);  // once more changes nothing
  for (int i = 0; i < 3; ++i) pair.copy_all();
  CHECK(sent_in(a, 1) == sent);
  // The peer was told, and keeps away from it, too.
  REQUIRE(eventually([&] { return pair.b.device.stats().engine.port_updates_received > 0; }));
  CHECK(pair.b.device.plane_state(1) == PlaneState{true, true});  // its own port is fine
  pair.copy_all();
  const std::uint64_t received = a.stats().planes[1].rx_disabled;
  for (int i = 0; i < 3; ++i) pair.copy_all();
  CHECK(a.stats().planes[1].rx_disabled == received);

  a.set_plane_enabled(1, true);
  CHECK(is(next_event(a), Kind::plane_up, 1));
  CHECK(a.plane_state(1) == PlaneState{true, true});
  REQUIRE(eventually([&] {
    pair.copy_all();
    return sent_in(a, 1) > sent;
  }));
  CHECK(pair.a.qps[0].state() == QpState::rts);
  DeviceEvent event;
  CHECK(!a.poll_event(event));
}

TEST_CASE("plane administration: link state and injected faults are other reasons to be down") {
  Pair pair;
  Device& a = pair.a.device;
  a.set_plane_enabled(1, false);
  CHECK(is(next_event(a), Kind::plane_down, 1));
  a.set_faults("plane=1,down");
  a.set_plane_enabled(1, true);
  CHECK(a.plane_state(1) == PlaneState{true, false});  // the fault is still there
  a.set_plane_enabled(1, false);
  a.set_faults("");
  CHECK(a.plane_state(1) == PlaneState{false, false});
  DeviceEvent event;
  CHECK(!a.poll_event(event));  // it was down all the time
  const std::uint64_t sent = sent_in(a, 1);
  // One that the peer sent while the plane was enabled, and the fault there, is counted.
  const std::uint64_t lost = a.stats().planes[1].faults.link_down;
  pair.copy_all();
  CHECK(sent_in(a, 1) == sent);
  CHECK(a.stats().planes[1].faults.link_down == lost);
  a.set_plane_enabled(1, true);
  CHECK(is(next_event(a), Kind::plane_up, 1));
}

TEST_CASE("plane administration: with all planes disabled queue pairs wait, as in an outage") {
  Config config = test_config();
  config.retry_exponential = 25;  // for ever
  Pair pair(config);
  Device& a = pair.a.device;
  pair.copy_all();
  const port::IpAddress gid = a.gid();
  for (const unsigned plane : {0u, 1u}) a.set_plane_enabled(plane, false);
  const std::uint64_t sent[] = {sent_in(a, 0), sent_in(a, 1)};
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 4096) == Errc::ok);
  REQUIRE(post_copy(pair.b, pair.b.qps[0], pair.a, 0, 4096) == Errc::ok);
  // Nobody can tell the peer: what it sends is dropped.
  REQUIRE(eventually([&] {
    const DeviceStats stats = a.stats();
    return stats.planes[0].rx_disabled + stats.planes[1].rx_disabled > 0;
  }));
  Completion none;
  CHECK(pair.a.cq.poll({&none, 1}) == 0);
  for (const unsigned plane : {0u, 1u}) CHECK(sent_in(a, plane) == sent[plane]);
  CHECK(pair.a.qps[0].state() == QpState::rts);
  a.set_plane_enabled(1, true);
  CHECK(pair.a.await_one().status == WcStatus::success);
  CHECK(pair.b.await_one().status == WcStatus::success);
  CHECK(sent_in(a, 0) == sent[0]);
  CHECK(a.gid() != gid);
}

TEST_CASE("plane administration: nobody is asked, and nobody answered, in a disabled plane") {
  Side a(test_config()), b(Pair::other(test_config()));
  a.device.set_plane_enabled(0, false);
  b.device.set_plane_enabled(1, false);
  QueuePair& qp = a.add_qp();
  QueuePair& other = b.add_qp();
  connect_by_gid(a, qp, b, other);
  REQUIRE(post_copy(a, qp, b, 0, 4096) == Errc::ok);
  std::this_thread::sleep_for(100ms);
  CHECK(sent_in(a.device, 0) == 0);
  CHECK(sent_in(b.device, 1) == 0);
  b.device.set_plane_enabled(1, true);
  CHECK(a.await_one().status == WcStatus::success);
  CHECK(sent_in(a.device, 0) == 0);
}

TEST_CASE("plane administration: in all lanes, and reported once") {
  LanePair pair;
  Device& a = pair.a.device;
  pair.copy_by_all();
  a.set_plane_enabled(0, false);
  const std::uint64_t sent = sent_in(a, 0);
  for (int i = 0; i < 3; ++i) pair.copy_by_all();
  CHECK(sent_in(a, 0) == sent);
  a.set_plane_enabled(0, true);
  CHECK(is(next_event(a), Kind::plane_down, 0));
  CHECK(is(next_event(a), Kind::plane_up, 0));
  DeviceEvent event;
  CHECK(!a.poll_event(event));
}

TEST_CASE("plane administration: a plane that there is not is named") {
  Device device(test_config());
  CHECK_THROWS_WITH_AS(device.set_plane_enabled(2, false), doctest::Contains("plane 2"), Error);
  CHECK_THROWS_WITH_AS((void)device.plane_state(7), doctest::Contains("plane 7"), Error);
}

}  // namespace plane_admin_test
