// SPDX-License-Identifier: Apache-2.0
// What NCCL's log says of paths that fail and return.
#include "nccl_plugin/rules/path_watch.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using mrc_nccl::PathWatch;
using mrc_nccl::PeerPaths;
using namespace std::chrono_literals;

namespace path_watch_test {

/// A net device of some planes and its peers, looked at every 100 ms.
struct WatchRig {
  WatchRig(unsigned planes, unsigned paths, unsigned peers = 1) {
    for (unsigned p = 0; p < planes; ++p) all_planes.push_back({"plane " + std::to_string(p)});
    for (unsigned n = 0; n < peers; ++n) {
      all_peers.push_back({n, "host" + std::to_string(n) + ":1", {}});
      for (unsigned p = 0; p < planes; ++p)
        for (unsigned i = 0; i < paths; ++i) add(n, p, i);
    }
  }
  void add(unsigned peer, unsigned plane, unsigned number) {
    mrc::PathReport path;
    path.plane = static_cast<mrc::Plane>(plane);
    path.port_path = static_cast<std::uint16_t>(number);
    path.state = "good";
    all_peers[peer].paths.push_back(path);
  }
  /// Sets the state of paths `first` .. `last` of a plane, to all peers or to one.
  void set(const char* state, unsigned plane, unsigned first, unsigned last, int peer = -1) {
    for (PeerPaths& one : all_peers)
      for (mrc::PathReport& path : one.paths) {
        if (peer >= 0 && one.number != static_cast<unsigned>(peer)) continue;
        if (path.plane != plane || path.port_path < first || path.port_path > last) continue;
        if (path.state != state && std::string(state) == "assumed_bad") ++path.times_bad;
        path.state = state;
      }
  }
  void fail(unsigned plane, unsigned first, unsigned last, int peer = -1) {
    set("assumed_bad", plane, first, last, peer);
  }
  void heal(unsigned plane, unsigned first, unsigned last, int peer = -1) {
    set("good", plane, first, last, peer);
  }
  /// Time passes while packets arrive, or time out; returns the lines.
  std::vector<std::string> pass(mrc::Duration time, bool arrives = true) {
    std::vector<std::string> lines;
    for (const mrc::Time end = now + time; now < end; now += 100ms) {
      for (PeerPaths& peer : all_peers)
        ++(arrives ? peer.paths[0].delivered : peer.paths[0].timeouts);
      for (std::string& line : watch.update(now, all_planes, all_peers))
        lines.push_back(std::move(line));
    }
    return lines;
  }

  std::vector<PathWatch::Plane> all_planes;
  std::vector<PeerPaths> all_peers;
  PathWatch watch;
  mrc::Time now{1000s};
};

using Lines = std::vector<std::string>;

TEST_CASE("path watch: one path of two that stays away is told, and its return") {
  WatchRig rig(4, 2);
  CHECK(rig.pass(10s).empty());
  CHECK_FALSE(rig.watch.busy());
  rig.fail(1, 0, 0);
  CHECK(rig.pass(4s) ==
        Lines{"plane 1: 1 of 2 paths does not work (path 0); 7 of 8 paths are left in all planes"});
  CHECK(rig.watch.busy());
  rig.heal(1, 0, 0);
  CHECK(rig.pass(4s) == Lines{"plane 1: all 2 paths work again"});
  CHECK_FALSE(rig.watch.busy());
}

TEST_CASE("path watch: paths that come and go with losses are not told") {
  WatchRig rig(2, 16);
  for (unsigned round = 0; round < 100; ++round) {
    rig.fail(round % 2, round % 16, round % 16);
    CHECK(rig.pass(400ms).empty());
    rig.heal(round % 2, round % 16, round % 16);
    CHECK(rig.pass(100ms).empty());
  }
  // It has come back between two looks.
  rig.fail(0, 3, 3);
  for (unsigned round = 0; round < 100; ++round) {
    CHECK(rig.pass(300ms).empty());
    ++rig.all_peers[0].paths[3].times_bad;
  }
}

TEST_CASE("path watch: what fails little by little is one line") {
  WatchRig rig(2, 8);
  for (unsigned i = 0; i < 4; ++i) {
    rig.fail(0, i, i);
    CHECK(rig.pass(300ms).empty());
  }
  CHECK(rig.pass(2s) == Lines{"plane 0: 4 of 8 paths do not work (paths 0, 1, 2, 3); 12 of 16 "
                              "paths are left in all planes"});
}

TEST_CASE("path watch: how many paths are left is true") {
  WatchRig one(1, 32);
  one.fail(0, 1, 31);
  CHECK(one.pass(4s) == Lines{"plane 0: 31 of 32 paths do not work; 1 of 32 paths is left"});
  // A plane that is down has none.
  WatchRig two(2, 16);
  two.all_planes[0].up = false;
  two.fail(1, 0, 14);
  CHECK(two.pass(4s) ==
        Lines{"plane 1: 15 of 16 paths do not work; 1 of 32 paths is left in all planes"});
  WatchRig all(2, 2);
  all.fail(0, 0, 1);
  CHECK(all.pass(4s) ==
        Lines{"plane 0: none of 2 paths works; 2 of 4 paths are left in all planes"});
  // Denied ones do not count.
  WatchRig denied(1, 4);
  denied.set("denied", 0, 3, 3);
  denied.fail(0, 0, 0);
  CHECK(denied.pass(4s) ==
        Lines{"plane 0: 1 of 3 paths does not work (path 0); 2 of 3 paths are left"});
}

TEST_CASE("path watch: EVs of one route are one path") {
  WatchRig rig(2, 2);
  for (unsigned plane = 0; plane < 2; ++plane)
    for (unsigned i = 0; i < 2; ++i) rig.add(0, plane, i);
  rig.all_peers[0].paths[2].state = "assumed_bad";  // plane 1, path 0, one of its EVs
  CHECK(rig.pass(4s) ==
        Lines{"plane 1: 1 of 2 paths does not work (path 0); 3 of 4 paths are left in all planes"});
}

TEST_CASE("path watch: nothing arrives at a peer, and then packets do again") {
  WatchRig rig(2, 4);
  // It takes a timeout for each path, and the last one is never taken out of use.
  for (unsigned i = 0; i < 3; ++i) {
    rig.fail(0, i, i);
    rig.fail(1, i, i);
    CHECK(rig.pass(600ms, false).empty());
  }
  rig.fail(0, 3, 3);
  CHECK(rig.pass(5s, false) ==
        Lines{"nothing arrives at host0:1 over any path: traffic there waits"});
  CHECK(rig.pass(20s, false).empty());
  // Probes bring one path after the other back.
  rig.heal(1, 0, 3);
  Lines lines = rig.pass(300ms);
  rig.heal(0, 0, 3);
  for (std::string& line : rig.pass(4s)) lines.push_back(std::move(line));
  CHECK(lines == Lines{"packets arrive again at host0:1"});
  CHECK_FALSE(rig.watch.busy());
  // With the only path there is.
  WatchRig single(1, 1);
  CHECK(single.pass(4s, false).size() == 1);
  CHECK(single.pass(4s) == Lines{"packets arrive again at host0:1"});
}

TEST_CASE("path watch: a packet that times out and arrives then is nothing to tell") {
  WatchRig rig(2, 4);
  for (int round = 0; round < 10; ++round) {
    CHECK(rig.pass(1900ms, false).empty());
    CHECK(rig.pass(100ms).empty());
  }
  // Who has sent it waits no more.
  CHECK(rig.pass(1s, false).empty());
  for (int i = 0; i < 100; ++i, rig.now += 100ms)
    CHECK(rig.watch.update(rig.now, rig.all_planes, rig.all_peers).empty());
  CHECK_FALSE(rig.watch.busy());
}

TEST_CASE("path watch: a peer without a path says nothing about the planes of others") {
  WatchRig rig(2, 4, 3);
  rig.fail(0, 0, 3, 1);
  rig.fail(1, 0, 2, 1);
  Lines lines;
  for (int i = 0; i < 40; ++i) {
    ++rig.all_peers[1].paths[0].timeouts;
    --rig.all_peers[1].paths[0].delivered;  // pass() counts one
    for (std::string& line : rig.pass(100ms)) lines.push_back(std::move(line));
  }
  CHECK(lines == Lines{"nothing arrives at host1:1 over any path: traffic there waits"});
  // It is gone: no line.
  rig.all_peers.erase(rig.all_peers.begin() + 1);
  CHECK(rig.pass(4s).empty());
  CHECK_FALSE(rig.watch.busy());
}

TEST_CASE("path watch: a port of one peer is named") {
  WatchRig rig(2, 4, 3);
  rig.fail(1, 0, 3, 2);
  CHECK(rig.pass(4s) ==
        Lines{"plane 1: 4 of 12 paths do not work (paths 0, 1, 2, 3) to host2:1; 20 of 24 paths "
              "are left in all planes"});
}

TEST_CASE("path watch: a switch that goes and comes does not fill the log") {
  WatchRig rig(2, 2);
  Lines lines;
  for (int round = 0; round < 100; ++round) {
    rig.fail(0, 0, 0);
    for (std::string& line : rig.pass(1500ms)) lines.push_back(std::move(line));
    rig.heal(0, 0, 0);
    for (std::string& line : rig.pass(1500ms)) lines.push_back(std::move(line));
  }
  CHECK(lines.size() >= 20);
  CHECK(lines.size() <= 34);  // 4 at once, and 1 each 10 s
  CHECK(lines[1] == "plane 0: all 2 paths work again");
  bool summed_up = false;
  for (const std::string& line : lines)
    summed_up |= line.find(" more failures since the last line") != line.npos;
  CHECK(summed_up);
  // The end is told, however late.
  lines = rig.pass(20s);
  for (const std::string& line : lines) CHECK(line.starts_with("plane 0: all 2 paths work again"));
  CHECK_FALSE(rig.watch.busy());
}

}  // namespace path_watch_test
