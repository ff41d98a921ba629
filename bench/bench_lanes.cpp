// SPDX-License-Identifier: Apache-2.0
// How much more a device of several lanes moves than a device of one. Two devices of N lanes in one
// process; thread i makes the progress of lane i of both, and writes from one to the other. Nothing
// else runs, so N lanes want N processors.
//
// lanes/memory: the planes are memory (test/support/memory_planes.hpp): engines, locks and the
// rounds of the device, no kernel. lanes/udp: UDP sockets of the loopback.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mrc/mrc.hpp"
#include "support/memory_planes.hpp"

namespace {

using namespace mrc;

constexpr std::uint32_t kMessage = 64 << 10;
constexpr unsigned kDepth = 16;  ///< writes posted per lane
constexpr Duration kPatience = std::chrono::seconds(10);

Config config_of(unsigned lanes) {
  Config config;
  config.planes = {"loopback:1"};
  config.udp_port = 23000;
  config.lanes = static_cast<std::uint16_t>(lanes);
  config.log = LogLevel::off;
  return config;
}

/// One device, and in each lane a queue pair with a completion queue of its own.
struct Side {
  Side(Device opened, unsigned lanes)
      : device(std::move(opened)),
        memory(std::size_t{lanes} * kMessage),
        region(device.register_memory(memory, Access::remote_write)) {
    if (device.lane_count() != lanes) throw std::runtime_error("too few slots or open files");
    cqs.reserve(lanes);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      cqs.push_back(device.create_cq(4 * kDepth));
      QpOptions options;
      options.send_cq = &cqs.back();
      options.lane = lane;
      qps.push_back(device.create_qp(options));
    }
  }
  Device device;
  std::vector<std::uint8_t> memory;
  MemoryRegion region;
  std::vector<CompletionQueue> cqs;
  std::vector<QueuePair> qps;
};

/// Writes of one lane: as many as `writes`, kDepth at a time. Throws if one fails or none ends.
void write_all(Side& from, Side& to, unsigned lane, std::uint64_t writes) {
  const Sge sge{from.memory.data() + std::size_t{lane} * kMessage, kMessage, from.region.lkey()};
  SendRequest request;
  request.sges = {&sge, 1};
  request.remote = to.region.remote(std::size_t{lane} * kMessage);
  std::array<Completion, kDepth> done;
  std::uint64_t posted = 0, completed = 0;
  Time give_up = monotonic_now() + kPatience;
  while (completed < writes) {
    while (posted < writes && posted - completed < kDepth) {
      if (from.qps[lane].post_send(request) != Errc::ok)
        throw std::runtime_error("a write cannot be posted");
      ++posted;
    }
    const std::size_t n = from.cqs[lane].poll(done);
    for (std::size_t i = 0; i < n; ++i)
      if (done[i].status != WcStatus::success) throw std::runtime_error("a write failed");
    completed += n;
    (void)to.cqs[lane].poll(done);
    if (n == 0 && monotonic_now() > give_up) throw std::runtime_error("no write ends");
    if (n > 0) give_up = monotonic_now() + kPatience;
  }
}

void run(benchmark::State& state, Side& a, Side& b) {
  const auto lanes = static_cast<unsigned>(state.range(0));
  const auto writes = static_cast<std::uint64_t>(state.range(1));
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const ConnectionInfo info_a = a.qps[lane].local_info(), info_b = b.qps[lane].local_info();
    a.qps[lane].connect(info_b);
    b.qps[lane].connect(info_a);
  }
  std::atomic<bool> failed{false};
  for (auto _ : state) {
    std::barrier start(lanes + 1);
    std::vector<std::jthread> threads;
    for (unsigned lane = 0; lane < lanes; ++lane)
      threads.emplace_back([&, lane] {
        start.arrive_and_wait();
        try {
          write_all(a, b, lane, writes);
        } catch (const std::exception&) {
          failed = true;
        }
      });
    start.arrive_and_wait();
    const auto from = std::chrono::steady_clock::now();
    threads.clear();
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
  }
  if (failed) state.SkipWithError("a write failed or did not end");
  const double bits = 8.0 * kMessage * static_cast<double>(writes) * lanes;
  state.counters["gbps"] =
      benchmark::Counter(bits / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["retransmits"] = static_cast<double>(a.device.stats().engine.tx_retransmits);
}

void lanes_memory(benchmark::State& state) try {
  const auto lanes = static_cast<unsigned>(state.range(0));
  const auto network = std::make_shared<test::MemoryNetwork>();
  const auto open = [&](std::uint8_t host) {
    return Device(config_of(lanes), std::make_unique<test::MemoryKind>(network, host));
  };
  Side a(open(1), lanes), b(open(2), lanes);
  run(state, a, b);
} catch (const std::exception& error) {
  state.SkipWithError(error.what());
}

void lanes_udp(benchmark::State& state) try {
  const auto lanes = static_cast<unsigned>(state.range(0));
  Side a(Device(config_of(lanes)), lanes), b(Device(config_of(lanes)), lanes);
  run(state, a, b);
} catch (const std::exception& error) {
  state.SkipWithError(error.what());
}

BENCHMARK(lanes_memory)
    ->ArgNames({"lanes", "writes"})
    ->ArgsProduct({{1, 2, 4, 8, 16}, {20000}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(lanes_udp)
    ->ArgNames({"lanes", "writes"})
    ->ArgsProduct({{1, 2, 4, 8, 16}, {20000}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
