// SPDX-License-Identifier: Apache-2.0
// Slow paths, as `mrc_ctl serve` and `mrc_ctl paths --for` find them in what devices report.
#include "mrc_ctl/serve/slow_paths.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "support/own_folder.hpp"

namespace slow_paths_test {

using namespace mrc::ctl_tool;

std::size_t place(std::string_view field) {
  for (std::size_t i = 0; i < std::size(kPathFields); ++i)
    if (field == kPathFields[i].field) return i;
  return 0;
}

/// A device at h0 with traffic to h1, over `evs` EVs of each plane of an SRv6 fabric or of none.
struct Traffic {
  DeviceSnapshot device;

  explicit Traffic(unsigned planes, std::vector<std::uint32_t> evs) {
    device.id = "00ff";
    device.up = true;
    PeerSnapshot peer;
    for (unsigned p = 0; p < planes; ++p) {
      device.planes.push_back({"[fd00:" + std::to_string(p + 1) + "::1]:4791", true, true, {}});
      peer.addresses += (p == 0 ? "" : ", ") + device.planes[p].address;
      peer.addresses.replace(peer.addresses.rfind("::1]"), 4, "::2]");
    }
    for (unsigned p = 0; p < planes; ++p)
      for (std::uint32_t ev : evs) {
        PathSnapshot path;
        path.ev = ev;
        path.plane = p;
        path.state = "good";
        path.active = true;
        path.rtt_ns = 5'000'000;
        peer.paths.push_back(path);
      }
    device.peers.push_back(peer);
  }

  PathSnapshot& path(unsigned plane, std::uint32_t ev) {
    for (PathSnapshot& path : device.peers[0].paths)
      if (path.plane == plane && path.ev == ev) return path;
    FAIL("no such path");
    return device.peers[0].paths[0];
  }

  /// A second of traffic, of which some paths deliver little.
  template <class F>
  void go_on(F&& is_slow) {
    for (PathSnapshot& path : device.peers[0].paths) {
      const bool slow = is_slow(path);
      path.counters[place("delivered")] += slow ? 60 : 1000;
      path.counters[place("marks")] += slow ? 30 : 10;
      path.rtt_ns = slow ? 60'000'000 : 5'000'000;
    }
  }
};

/// Seconds until something is slow, or `most`.
template <class F>
unsigned watch(SlowPaths& slow, Traffic& traffic, unsigned most, F&& is_slow) {
  for (unsigned s = 0; s < most; ++s) {
    slow.take(100 + s, {&traffic.device, 1});
    if (!slow.found().empty()) return s;
    traffic.go_on(is_slow);
  }
  return most;
}

TEST_CASE("slow paths: a plane all of whose paths are slow, without a description") {
  Traffic traffic(3, {1, 2, 3, 4});
  SlowPaths slow(nullptr);
  CHECK(watch(slow, traffic, 20, [](const PathSnapshot& p) { return p.plane == 1; }) < 10);
  REQUIRE(slow.found().size() == 1);
  CHECK(slow.found()[0].what == "plane 1");
  CHECK(slow.found()[0].detail ==
        "delivers 6 % of what others do; round trip 60.0 ms, of others 5.0 ms; 50 % marked, of "
        "others 1 %");
}

TEST_CASE("slow paths: EVs that have no part in common are named by themselves") {
  Traffic traffic(2, {1, 2, 3, 4});
  SlowPaths slow(nullptr);
  const auto some = [](const PathSnapshot& p) { return p.plane == 1 && p.ev >= 3; };
  CHECK(watch(slow, traffic, 20, some) < 10);
  REQUIRE(slow.found().size() == 1);
  CHECK(slow.found()[0].what == "paths of plane 1 to [fd00:1::2]:4791, [fd00:2::2]:4791");
  CHECK(slow.found()[0].detail.rfind("EV 0x3, 0x4; delivers 6 %", 0) == 0);
}

TEST_CASE("slow paths: over which part of a fabric they lead") {
  const mrc::test::OwnFolder folder;
  const std::string file = folder.path + "/fabric.json";
  std::ofstream(file) << R"({ "planes": 2, "t0": 2, "t1": 2, "hosts": 2 })";
  FabricMap map(file);
  // The EV is the plane, then the T1, plus one; bit 16 marks a second EV of the same route.
  Traffic traffic(2, {});
  for (const std::uint32_t ev : {1u, 2u, 3u, 4u, 0x10004u}) {
    PathSnapshot path;
    path.ev = ev;
    path.plane = (ev & 0xFF) > 2 ? 1 : 0;
    path.state = "good";
    path.active = true;
    traffic.device.peers[0].paths.push_back(path);
  }
  map.add_routes(traffic.device);
  SlowPaths slow(&map);
  const auto over = [](const PathSnapshot& p) { return (p.ev & 0xFF) == 4; };
  CHECK(watch(slow, traffic, 20, over) < 10);
  REQUIRE(slow.found().size() == 1);
  CHECK(slow.found()[0].what == "link p1t0-0 - p1t1-1");
  CHECK(slow.found()[0].alike == std::vector<std::string>{"link p1t0-1 - p1t1-1", "switch p1t1-1"});
  // It ends.
  for (unsigned s = 20; s < 30; ++s) {
    traffic.go_on([](const PathSnapshot&) { return false; });
    slow.take(100 + s, {&traffic.device, 1});
  }
  CHECK(slow.found().empty());
}

TEST_CASE("slow paths: who asks often, or once, or of a device that is silent gets no verdict") {
  Traffic traffic(2, {1, 2});
  SlowPaths often(nullptr);
  const auto one = [](const PathSnapshot& p) { return p.plane == 1; };
  for (unsigned i = 0; i < 100; ++i) {  // in one second
    often.take(100 + i * 0.01, {&traffic.device, 1});
    traffic.go_on(one);
  }
  CHECK(often.found().empty());
  SlowPaths silent(nullptr);
  traffic.device.up = false;
  CHECK(watch(silent, traffic, 20, one) == 20);
  // A peer that took the number of another one: its counters are less.
  traffic.device.up = true;
  SlowPaths fresh(nullptr);
  for (unsigned s = 0; s < 20; ++s) {
    traffic.go_on(one);
    if (s % 2 == 0)
      for (PathSnapshot& path : traffic.device.peers[0].paths) path.counters = {};
    fresh.take(100 + s, {&traffic.device, 1});
  }
  CHECK(fresh.found().empty());
  CHECK(to_json(SlowPart{"plane 1", "x", {"y"}})["alike"][0] == "y");
}

}  // namespace slow_paths_test
