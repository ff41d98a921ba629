// SPDX-License-Identifier: Apache-2.0
// Injected faults of each kind: the data is right, and the counters show what happened.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace faults_test {

/// Packets hit by faults, on all planes.
port::FaultStats hits(const Device& device) {
  port::FaultStats sum;
  for (const PlaneStats& plane : device.stats().planes) {
    const port::FaultStats& f = plane.faults;
    sum.lost += f.lost;
    sum.duplicated += f.duplicated;
    sum.reordered += f.reordered;
    sum.corrupted += f.corrupted;
    sum.marked += f.marked;
    sum.trimmed += f.trimmed;
    sum.delayed += f.delayed;
    sum.black_holed += f.black_holed;
    sum.link_down += f.link_down;
  }
  return sum;
}

/// The side that has the fault and counts it: paths are the sender's.
enum class Where { sender, receiver, both };

struct Kind {
  std::string name;
  const char* schedule;
  Where where;
  std::uint64_t port::FaultStats::*counter;
};

const Kind kKinds[] = {
    {"loss", "loss=0.02", Where::both, &port::FaultStats::lost},
    {"duplicates", "duplicate=0.05", Where::both, &port::FaultStats::duplicated},
    {"reordering", "reorder=0.05", Where::both, &port::FaultStats::reordered},
    {"corruption", "corrupt=0.02", Where::both, &port::FaultStats::corrupted},
    {"ECN", "ecn=0.1", Where::both, &port::FaultStats::marked},
    {"trimming", "trim=0.05", Where::both, &port::FaultStats::trimmed},
    {"trimming at the last hop", "trim_last_hop=0.05", Where::both, &port::FaultStats::trimmed},
    {"delay", "delay=500us,jitter=500us", Where::both, &port::FaultStats::delayed},
    {"loss on a path", "path=1,loss=0.2", Where::sender, &port::FaultStats::lost},
    {"a black hole", "plane=1,blackhole", Where::receiver, &port::FaultStats::black_holed},
    {"a plane that is down", "plane=1,down", Where::both, &port::FaultStats::link_down},
    {"all at once",
     "loss=0.01,duplicate=0.01,reorder=0.01,corrupt=0.01,ecn=0.01,trim=0.01;plane=2,delay=200us",
     Where::both, &port::FaultStats::lost},
};

TEST_CASE("every kind of fault: each byte is right, and it shows in the counters") {
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.name);
    const std::string& name = kind.name;
    const bool down = name == "a plane that is down";
    Config config = test_config("loopback:4");
    config.trim = port::Offload::on;  // UDP sockets see trims that are injected behind them
    config.icrc = port::Offload::on;  // within a host, too
    Pair pair(config, 2 << 20);
    if (kind.where != Where::receiver) pair.a.device.set_faults(kind.schedule);
    if (kind.where != Where::sender) pair.b.device.set_faults(kind.schedule);
    const Device& counting = kind.where == Where::sender ? pair.a.device : pair.b.device;
    // A sender that SACKs have told of a gap before the NACK reached it over another plane takes no
    // notice of that NACK, so a trim has shown only once it was counted there.
    const bool trimming = name.starts_with("trimming");
    const auto shown = [&] {
      return hits(counting).*kind.counter > 0 && (!trimming || pair.a.qps[0].stats().trims > 0);
    };
    // Both ends leave a plane alone when they know that it is down, so nothing need be hit there.
    for (int i = 0; i == 0 || (i < 50 && !shown() && !down); ++i) pair.copy_all();
    if (!down) CHECK(hits(counting).*kind.counter > 0);
    const DeviceStats a = pair.a.device.stats(), b = pair.b.device.stats();
    CHECK(a.engine.qp_errors == 0);
    if (name == "loss") CHECK(a.engine.tx_retransmits > 0);
    if (name == "duplicates") CHECK(b.engine.rx_duplicates > 0);
    if (name == "corruption") {
      for (const Device* device : {&pair.a.device, &pair.b.device}) {
        // What is hit may be the tag, the QPN or the opcode.
        const DeviceStats now = device->stats();
        const DropStats& drops = now.engine.drops;
        const std::uint64_t found =
            drops.bad_icrc + drops.bad_tag + drops.unknown_qp + drops.malformed;
        std::uint64_t corrupted = 0;
        for (const PlaneStats& plane : now.planes) corrupted += plane.faults.corrupted;
        CHECK(found == corrupted);
      }
    }
    if (name == "ECN") CHECK(b.engine.rx_ecn > 0);
    if (trimming) {
      CHECK(b.engine.rx_trimmed > 0);
      CHECK(b.engine.nacks_sent > 0);
      CHECK(pair.a.qps[0].stats().trims > 0);
    }
    if (down) {
      CHECK_FALSE(a.planes[1].up);
      CHECK(a.planes[1].port.tx_packets < 32);  // probes, while it was up: data is more than 100
      CHECK(a.planes[0].port.tx_packets > 0);
    }
  }
}

TEST_CASE("faults of the configuration hold from the start; new ones replace them") {
  Config config = test_config("loopback:2");
  config.faults = "loss=0.05";
  Pair pair(config);
  pair.copy_all();
  CHECK(hits(pair.b.device).lost > 0);
  pair.a.device.set_faults("");
  pair.b.device.set_faults("duplicate=0.05");
  const std::uint64_t lost = hits(pair.b.device).lost;
  pair.copy_all();
  CHECK(hits(pair.b.device).lost == lost);
  CHECK(hits(pair.b.device).duplicated > 0);
}

TEST_CASE("faults that make no sense, or of what is not there, are refused and change nothing") {
  Pair pair(test_config("loopback:2"));  // 4 paths each
  Device& device = pair.b.device;
  device.set_faults("duplicate=0.2");
  const auto refused = [&](const char* schedule, Errc code, const char* item, const char* why) {
    CAPTURE(schedule);
    const Error error = thrown_by([&] { device.set_faults(schedule); });
    CAPTURE(error.what());
    CHECK(error.code() == code);
    CHECK(contains(error.what(), item));
    CHECK(contains(error.what(), why));
  };
  refused("plane=2,down", Errc::invalid_argument, "'plane=2'", "the last one is plane=1");
  refused("loss=0.1;plane=31,loss=1@5s-6s", Errc::invalid_argument, "'plane=31'", "'planes'");
  refused("plane=1,path=4,down", Errc::invalid_argument, "'plane=1,path=4'",
          "the last one is path=3");
  refused("path=9,loss=1", Errc::invalid_argument, "'path=9'", "'paths'");
  refused("loss=1.5", Errc::invalid_argument, "fault 'loss=1.5'", "from 0 to 1");
  refused("path=3,ecn=1", Errc::unsupported, "'path=3'", "loss, blackhole and down");
  pair.copy_all();
  CHECK(hits(device).duplicated > 0);
  device.set_faults("plane=1,path=3,loss=0.1;plane=0,loss=0.01");  // the last ones that exist
  pair.copy_all();

  Config config = test_config("loopback:2", 3);
  config.faults = "plane=2,down";
  const Error error = thrown_by([&] { Device third(config); });
  CHECK(contains(error.what(), "option 'faults': value 'plane=2,down'"));
  CHECK(contains(error.what(), "the last one is plane=1"));
}

TEST_CASE("a plane that goes down and comes back is left and used again") {
  Pair pair(test_config("loopback:2"), 1 << 20);
  pair.copy_all();
  const auto sent = [&] { return pair.a.device.stats().planes[1].port.tx_packets; };
  std::uint64_t before = 0;
  pair.b.device.set_faults("plane=1,down");
  CHECK(eventually([&] {
    before = sent();
    pair.copy_all();  // no write fails
    return sent() == before;
  }));
  pair.b.device.set_faults("");
  CHECK(eventually([&] { return sent() >= before + 200; }, [&] { pair.copy_all(); }));
  CHECK(pair.a.device.stats().engine.qp_errors == 0);
}

}  // namespace faults_test
