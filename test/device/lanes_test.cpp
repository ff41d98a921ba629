// SPDX-License-Identifier: Apache-2.0
// Devices of several lanes: what they share, what they do not, and how many there are.
#include <dirent.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gid_rig.hpp"
#include "lanes_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace lanes_test {

bool readable(int fd, int timeout_ms = 0) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, timeout_ms) == 1;
}

/// The helper threads of this process: thread number by name.
std::map<std::string, std::string> helper_threads() {
  std::map<std::string, std::string> threads;
  DIR* directory = opendir("/proc/self/task");
  REQUIRE(directory != nullptr);
  while (const dirent* entry = readdir(directory)) {
    std::ifstream file("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::string name;
    if (std::getline(file, name) && name.rfind("openmrc-", 0) == 0) threads[name] = entry->d_name;
  }
  closedir(directory);
  return threads;
}

TEST_CASE("lanes: queue pairs go to the lane with the fewest, or where they are told") {
  Side side(lanes_config(3));
  REQUIRE(side.device.lane_count() == 3);
  side.qps.reserve(16);
  std::vector<unsigned> lanes;
  std::set<unsigned> slots;
  for (unsigned i = 0; i < 6; ++i) {
    const QueuePair& qp = side.add_qp();
    lanes.push_back(qp.lane());
    slots.insert(slot_of(qp.qpn()));
    CHECK(qp.local_info().slot == slot_of(qp.qpn()));
  }
  CHECK(lanes == std::vector<unsigned>{0, 1, 2, 0, 1, 2});
  CHECK(slots.size() == 3);
  REQUIRE(side.qps[1].close() == Errc::ok);
  CHECK(side.add_qp().lane() == 1);
  CHECK(in_lane(side, 2, side.cq).lane() == 2);
  CHECK_THROWS_WITH_AS((void)in_lane(side, 3, side.cq), doctest::Contains("has lanes 0 .. 2"),
                       Error);
  const DeviceStats stats = side.device.stats();
  REQUIRE(stats.lanes.size() == 3);
  CHECK(stats.qps == 6);
  for (const LaneStats& lane : stats.lanes) CHECK(lane.qps == 2);
}

TEST_CASE("lanes: a hint of several flows counts the windows that they have") {
  Config config = test_config("loopback:1");
  const auto start = [&](const QpHint& hint) {
    Side from(config, 4096), to(Pair::other(config), 4096);
    QueuePair &a = from.add_qp(), &b = to.add_qp();
    CHECK(a.set_hint(hint) == Errc::ok);
    connect(a, b);
    CHECK(b.set_hint(hint) == Errc::ok);
    CHECK(a.stats().cwnd == b.stats().cwnd);
    return a.stats().cwnd;
  };
  const std::uint64_t full = start({});
  CHECK(start({0, 0}) == full);
  CHECK(start({4, 1}) == full / 4);
  CHECK(start({4, 8}) == full / 4);  // one lane: they share a window
  config.lanes = 2;
  CHECK(start({4, 1}) == full / 4);
  CHECK(start({4, 8}) == full / 8);
  CHECK(start({0, 8}) == full / 2);
  config.cc = cc::Algorithm::fixed;
  CHECK(start({4, 8}) == config.cc_fixed_window);
}

TEST_CASE("lanes: one memory region, one protection domain and one completion queue serve all") {
  LanePair pair;
  pair.copy_by_all();
  const DeviceStats stats = pair.a.device.stats();
  std::uint64_t sum = 0;
  for (const LaneStats& lane : stats.lanes) {
    CHECK(lane.engine.tx_data > 0);
    CHECK(lane.peers == 1);
    sum += lane.engine.tx_data;
  }
  CHECK(stats.engine.tx_data == sum);
  CHECK(stats.planes.size() == 2);
  CHECK(stats.planes[0].port.tx_packets + stats.planes[1].port.tx_packets >= sum);
  for (QueuePair& qp : pair.a.qps) CHECK_FALSE(pair.a.device.paths(qp).empty());
}

TEST_CASE("lanes: a completion queue holds as many completions of each lane as asked for") {
  LanePair pair;
  CompletionQueue small = pair.a.device.create_cq(4);
  std::vector<QueuePair> from, to;
  for (unsigned lane = 0; lane < 4; ++lane) {
    from.push_back(in_lane(pair.a, lane, small));
    to.push_back(in_lane(pair.b, lane, pair.b.cq));
    connect(from.back(), to.back());
    for (unsigned i = 0; i < 4; ++i)
      REQUIRE(post_copy(pair.a, from.back(), pair.b, lane * 64, 8) == Errc::ok);
  }
  std::size_t n = 0;
  std::array<Completion, 16> done;
  CHECK(eventually([&] {
    return std::all_of(from.begin(), from.end(),
                       [](const QueuePair& qp) { return qp.stats().writes_completed == 4; });
  }));
  CHECK(eventually([&] { return (n += small.poll(done)) >= 16; }));
  CHECK(n == 16);
  CHECK_FALSE(small.overrun());
}

TEST_CASE("lanes: wait() sleeps and is woken by whichever lane has something, with no helper") {
  Config config = lanes_config();
  config.expert.spin = Duration{0};
  config.helper = false;
  LanePair pair(config);
  for (unsigned round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < pair.a.qps.size(); ++i) {
      std::atomic<bool> done{false};
      std::jthread receiver([&] {  // makes the progress of its side
        std::array<Completion, 1> none;
        while (!done) (void)pair.b.cq.wait(none, 5ms);
      });
      REQUIRE(post_copy(pair.a, pair.a.qps[i], pair.b, 0, 64 << 10, i) == Errc::ok);
      const Completion completion = pair.a.await_one();
      done = true;
      CHECK(completion.status == WcStatus::success);
      CHECK(completion.wr_id == i);
    }
}

TEST_CASE("lanes: a thread asleep on a queue notices a lane that begins to serve it") {
  for (const bool helper : {false, true}) {
    CAPTURE(helper);
    Config config = lanes_config(3);
    config.expert.spin = Duration{0};
    config.helper = helper;
    Config peer = Pair::other(lanes_config(3));
    Side a(config), b(peer);
    CompletionQueue cq = a.device.create_cq(16);
    std::atomic<std::size_t> got{0};
    std::jthread waiter([&] {
      std::array<Completion, 1> one;
      got = cq.wait(one, kPatience);
    });
    std::this_thread::sleep_for(20ms);
    QueuePair from = in_lane(a, 2, cq), to = in_lane(b, 1, b.cq);
    connect(from, to);
    REQUIRE(post_copy(a, from, b, 0, 4096) == Errc::ok);
    waiter.join();
    CHECK(got == 1);
  }
}

TEST_CASE("lanes: one event for an armed queue, whichever lane it comes from") {
  LanePair pair;
  std::uint64_t count = 0;
  for (std::size_t first = 0; first < 4; ++first) {
    REQUIRE(pair.a.cq.arm() == Errc::ok);
    REQUIRE(post_copy(pair.a, pair.a.qps[first], pair.b, 64 * first, 8) == Errc::ok);
    REQUIRE(readable(pair.a.cq.fd(), 10'000));
    REQUIRE(::read(pair.a.cq.fd(), &count, sizeof count) == sizeof count);
    for (std::size_t i = 0; i < 4; ++i)
      REQUIRE(post_copy(pair.a, pair.a.qps[i], pair.b, 64 * i, 8) == Errc::ok);
    (void)pair.a.await(5);
    CHECK_FALSE(readable(pair.a.cq.fd()));
  }
  SUBCASE("also in a lane that serves the queue later") {
    CompletionQueue cq = pair.a.device.create_cq(16);
    REQUIRE(cq.arm() == Errc::ok);
    QueuePair from = in_lane(pair.a, 3, cq), to = in_lane(pair.b, 0, pair.b.cq);
    connect(from, to);
    REQUIRE(post_copy(pair.a, from, pair.b, 0, 8) == Errc::ok);
    CHECK(readable(cq.fd(), 10'000));
  }
}

TEST_CASE("lanes: a thread that waits does not use up the event of an armed queue's channel") {
  for (const std::uint16_t lanes : {1, 3}) {
    CAPTURE(lanes);
    Config config = lanes_config(lanes);
    config.expert.spin = Duration{0};
    LanePair pair(config);
    CompletionChannel channel = pair.b.device.create_channel();
    CompletionQueue cq = pair.b.device.create_cq(64, &channel);
    QpOptions options;
    options.send_cq = &cq;
    QueuePair receiver = pair.b.device.create_qp(options);
    QueuePair& sender = pair.a.add_qp();
    connect(sender, receiver);
    const auto send = [&](bool solicited) {
      REQUIRE(receiver.post_receive(1) == Errc::ok);
      SendRequest request;
      request.opcode = SendOpcode::write_imm;
      request.flags.solicited = solicited;
      REQUIRE(sender.post_send(request) == Errc::ok);
      std::array<Completion, 1> one;
      REQUIRE(cq.wait(one, kPatience) == 1);  // arms the queue for any completion
      CHECK(pair.a.await_one().status == WcStatus::success);
    };
    REQUIRE(cq.arm(Arm::solicited) == Errc::ok);
    send(false);
    send(false);
    CHECK_FALSE(readable(channel.fd()));
    send(true);
    CHECK(readable(channel.fd(), 10'000));
    CHECK(channel.poll() == cq.id());
    cq.acknowledge();
    send(true);  // not armed any more
    CHECK_FALSE(readable(channel.fd()));
  }
}

TEST_CASE("lanes: what is in use in one lane is in use") {
  LanePair pair;
  Device& device = pair.a.device;
  const PdId pd = device.alloc_pd();
  std::vector<std::uint8_t> memory(4096);
  MemoryRegion region = device.register_memory(memory.data(), memory.size(), Access::none, pd);
  CHECK(device.dealloc_pd(pd) == Errc::in_use);
  CompletionQueue cq = device.create_cq(16);
  QpOptions options;
  options.send_cq = &cq;
  options.pd = pd;
  options.lane = 3;
  QueuePair qp = device.create_qp(options);
  CHECK(cq.close() == Errc::in_use);
  QueuePair peer = in_lane(pair.b, 2, pair.b.cq);
  connect(qp, peer);
  pair.b.device.set_faults("loss=1");
  pair.a.device.set_faults("loss=1");
  const Sge sge{memory.data(), 64, region.lkey()};
  SendRequest request;
  request.sges = {&sge, 1};
  request.remote = pair.b.target_region.remote();
  REQUIRE(qp.post_send(request) == Errc::ok);
  CHECK(region.close() == Errc::in_use);
  region = MemoryRegion();  // by force
  CHECK(qp.state() == QpState::err);
  CHECK(qp.error_cause() == QpErrorCause::memory_withdrawn);
  for (QueuePair& other : pair.a.qps) CHECK(other.state() == QpState::rts);
  CHECK(device.dealloc_pd(pd) == Errc::in_use);
  REQUIRE(qp.close() == Errc::ok);
  CHECK(device.dealloc_pd(pd) == Errc::ok);
  CHECK(cq.close() == Errc::ok);
  const DeviceStats stats = device.stats();
  CHECK(stats.pds == 0);
  CHECK(stats.cqs == 1);
  CHECK(stats.mrs == 2);
}

TEST_CASE("lanes: limits of objects of the device count once, and numbers are used again") {
  Config config = lanes_config(3);
  config.max_mrs = 8;
  config.max_cqs = 3;
  Side side(config);  // uses 2 regions and 1 queue
  std::vector<std::uint8_t> memory(64);
  for (unsigned round = 0; round < 100; ++round) {
    std::vector<MemoryRegion> regions;
    while (regions.size() < 6)
      regions.push_back(side.device.register_memory(memory, Access::local_write));
    CHECK_THROWS_WITH_AS((void)side.device.register_memory(memory, Access::none),
                         doctest::Contains("max_mrs"), Error);
    std::vector<CompletionQueue> cqs;
    while (cqs.size() < 2) cqs.push_back(side.device.create_cq(4));
    CHECK_THROWS_WITH_AS((void)side.device.create_cq(4), doctest::Contains("max_cqs"), Error);
  }
  CHECK_THROWS_AS((void)side.device.create_cq(0), Error);
  CHECK(side.device.stats().mrs == 2);
  CHECK(side.device.stats().cqs == 1);
}

TEST_CASE("lanes: events of all lanes in one queue, and planes are reported once") {
  LanePair pair;
  DeviceEvent event;
  CHECK_FALSE(readable(pair.a.device.event_fd()));
  CHECK_FALSE(pair.a.device.poll_event(event));
  pair.a.device.set_faults("plane=1,down");
  REQUIRE(readable(pair.a.device.event_fd(), 10'000));
  REQUIRE(pair.a.device.poll_event(event));
  CHECK(event.kind == DeviceEvent::Kind::plane_down);
  CHECK(event.plane == 1);
  CHECK_FALSE(readable(pair.a.device.event_fd()));
  pair.a.device.set_faults("");
  while (!pair.a.device.poll_event(event)) REQUIRE(readable(pair.a.device.event_fd(), 10'000));
  CHECK(event.kind == DeviceEvent::Kind::plane_up);
  pair.copy_by_all();
  CHECK_FALSE(pair.a.device.poll_event(event));
  for (const unsigned i : {3u, 1u}) {
    REQUIRE(pair.a.qps[i].to_error() == Errc::ok);
    while (!pair.a.device.poll_event(event)) REQUIRE(readable(pair.a.device.event_fd(), 10'000));
    CHECK(event.kind == DeviceEvent::Kind::qp_error);
    CHECK(event.qpn == pair.a.qps[i].qpn());
  }
}

TEST_CASE("lanes: faults hit every lane, and nothing is lost") {
  Config config = lanes_config();
  config.mtu = 4096;  // with packets of 32 KiB a lane may lose none
  LanePair pair(config, 4 << 20);
  pair.b.device.set_faults("loss=0.02,reorder=0.05,duplicate=0.02");
  for (unsigned i = 0; i < 3; ++i) pair.copy_by_all();
  for (const LaneStats& lane : pair.a.device.stats().lanes) CHECK(lane.engine.tx_retransmits > 0);
}

TEST_CASE("lanes: a queue pair in any lane is found by GID and QPN") {
  LanePair pair;
  QueuePair from = in_lane(pair.a, 1, pair.a.cq), to = in_lane(pair.b, 3, pair.b.cq);
  connect_by_gid(pair.a, from, pair.b, to);
  REQUIRE(post_copy(pair.a, from, pair.b, 0, 100'000) == Errc::ok);
  CHECK(pair.a.await_one().status == WcStatus::success);
}

TEST_CASE("lanes: fewer than asked for where there is not room for all") {
  SUBCASE("slots") {
    Config config = lanes_config();
    config.slot = 254;
    Side side(config);
    CHECK(side.device.lane_count() == 2);
    CHECK(side.device.stats().lanes[1].slot == 255);
  }
  SUBCASE("open files") {
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit less = before;
    less.rlim_cur = 200;  // a lane of 8 planes with 8 paths opens some 80
    REQUIRE(setrlimit(RLIMIT_NOFILE, &less) == 0);
    Config config = lanes_config(8, "loopback:8");
    config.paths = 8;
    {
      Side side(config);
      CHECK(side.device.lane_count() >= 1);
      CHECK(side.device.lane_count() < 3);
      const int fd = ::dup(0);  // the application has files, too
      CHECK(fd >= 0);
      ::close(fd);
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  }
  SUBCASE("auto: as many as there are processors") {
    cpu_set_t before, one;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    unsigned cpu = 0;
    while (!CPU_ISSET(cpu, &before)) ++cpu;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(Side(lanes_config(0)).device.lane_count() == 1);
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
    if (CPU_COUNT(&before) <= 16)
      CHECK(Side(lanes_config(0)).device.lane_count() == CPU_COUNT(&before));
  }
}

TEST_CASE("lanes: each has a helper thread, on the processor that option helper_cpus gives") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  unsigned cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  Config config = lanes_config(3);
  config.helper_cpus = std::to_string(cpu);
  {
    Side side(config);
    const auto threads = helper_threads();
    REQUIRE(threads.size() == 3);
    for (const auto& thread : threads) {
      CAPTURE(thread.first);
      cpu_set_t set;
      REQUIRE(sched_getaffinity(std::atoi(thread.second.c_str()), sizeof set, &set) == 0);
      CHECK(CPU_COUNT(&set) == 1);
      CHECK(CPU_ISSET(cpu, &set));
    }
  }
  CHECK(eventually([] { return helper_threads().empty(); }));  // they end, listed for a moment
  config.helper_cpus = "1023";
  CHECK_THROWS_WITH_AS((void)Device(config), doctest::Contains("helper_cpus"), Error);
  config.helper_cpus = "3-1";
  CHECK_THROWS_WITH_AS((void)Device(config), doctest::Contains("0,2,8-11"), Error);
}

}  // namespace lanes_test
