// SPDX-License-Identifier: Apache-2.0
// The engine alone: nanoseconds per packet of the requester and of the responder, without I/O, copy
// or CRC. docs/performance.md describes the method.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <vector>

#include "bench_engine_rig.hpp"

namespace {

using mrc::bench::CopySwitch;
using mrc::bench::Rig;
using mrc::bench::RigSetup;
using mrc::bench::Share;

enum class Side { requester, responder };

/// Packets between two readings of Google Benchmark's clock.
constexpr std::uint64_t kStep = 4096;

/// Events per packet, to explain a result.
void count(benchmark::State& state, const mrc::EngineStats& tx, const mrc::EngineStats& rx,
           const mrc::EngineStats& tx_before, const mrc::EngineStats& rx_before) {
  const auto packets = static_cast<double>(tx.tx_data - tx_before.tx_data);
  state.counters["sacks"] = static_cast<double>(rx.sacks_sent - rx_before.sacks_sent) / packets;
  state.counters["acks"] = static_cast<double>(rx.acks_sent - rx_before.acks_sent) / packets;
  state.counters["probes"] = static_cast<double>(tx.probes_sent - tx_before.probes_sent) / packets;
  if (tx.tx_retransmits != 0 || rx.rx_duplicates != 0)
    state.SkipWithError("retransmissions without a loss");
}

void measure(benchmark::State& state, Side side, RigSetup setup) {
  setup.queue_pairs = static_cast<std::uint32_t>(state.range(0));
  setup.paths = static_cast<std::uint32_t>(state.range(1));
  try {
    Rig rig(setup);
    Share warm[2];
    rig.run(200'000 + 10ull * setup.queue_pairs, warm[0], warm[1]);
    const mrc::EngineStats before[2] = {rig.stats(0), rig.stats(1)};
    const std::uint64_t skipped = CopySwitch::skipped;
    Share shares[2];
    const Share& share = shares[side == Side::responder];
    for ([[maybe_unused]] auto step : state) {
      const auto time = share.time;
      rig.run(kStep, shares[0], shares[1]);
      state.SetIterationTime(std::chrono::duration<double>(share.time - time).count());
    }
    state.counters["ns_per_packet"] =
        static_cast<double>(share.time.count()) / static_cast<double>(share.packets);
    state.counters["clock_ns"] = 2 * Rig::clock_ns() / Rig::kBurst;
    count(state, rig.stats(0), rig.stats(1), before[0], before[1]);
    const bool read = setup.opcode == mrc::SendOpcode::read;  // the requester copies
    const std::uint64_t copies =
        read ? rig.stats(0).rx_data - before[0].rx_data : shares[1].packets;
    if (CopySwitch::skipped - skipped != (setup.copy ? 0 : copies))
      state.SkipWithError("the copies of payload were not left out");
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

/// 4 KiB packets of 1 MiB writes, each of them signaled.
void packets_4k(benchmark::State& state, Side side) {
  measure(state, side, {});
}
/// The same with the copies, to and from a warm cache.
void packets_4k_copied(benchmark::State& state, Side side) {
  measure(state, side, {.copy = true});
}
/// The same, arriving out of order as packets on different paths do.
void packets_4k_reordered(benchmark::State& state, Side side) {
  measure(state, side, {.reordered_block = 8});
}
/// The same, with 16 consecutive packets on one path, as ports with GSO prefer.
void packets_4k_bursts(benchmark::State& state, Side side) {
  measure(state, side, {.burst = 16});
}
/// Writes of 64 B, one packet each; every 16th signaled.
void writes_64(benchmark::State& state, Side side) {
  measure(state, side, {.message = 64, .depth = 64, .signal_every = 16});
}
/// Writes of 4 KiB, one packet each; every 16th signaled. What READs of 4 KiB compare with.
void writes_4k(benchmark::State& state, Side side) {
  measure(state, side, {.message = 4096, .depth = 64, .signal_every = 16});
}
/// Writes of 8 B, with which atomics compare; every 16th signaled.
void writes_8(benchmark::State& state, Side side) {
  measure(state, side, {.message = 8, .depth = 64, .signal_every = 16, .copy = true});
}
/// SENDs of 64 B, each with a receive; every 16th signaled.
void sends_64(benchmark::State& state, Side side) {
  measure(state, side,
          {.message = 64, .depth = 64, .signal_every = 16, .opcode = mrc::SendOpcode::send});
}
/// READs of 4 KiB, whose responses are a packet each; every 16th signaled. The time is that of a
/// request and its response.
void reads_4k(benchmark::State& state, Side side) {
  measure(state, side,
          {.message = 4096, .depth = 64, .signal_every = 16, .opcode = mrc::SendOpcode::read});
}
/// The same for atomics.
void fetch_adds(benchmark::State& state, Side side) {
  measure(state, side,
          {.message = 8,
           .depth = 64,
           .signal_every = 16,
           .copy = true,
           .opcode = mrc::SendOpcode::fetch_add});
}

/// Several independent rigs, each with its engines and a thread of its own, at the same time: they
/// share at most memory and cache. Measured in real time.
void engines_side_by_side(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  try {
    std::vector<std::unique_ptr<Rig>> rigs;
    Share ignored[2];
    for (std::size_t i = 0; i < count; ++i) {
      rigs.push_back(std::make_unique<Rig>(RigSetup{}));
      rigs.back()->run(200'000, ignored[0], ignored[1]);
    }
    constexpr std::uint64_t kPackets = 1'000'000;
    double seconds = 0;
    std::uint64_t packets = 0;
    for ([[maybe_unused]] auto step : state) {
      std::latch begin(static_cast<std::ptrdiff_t>(count) + 1);
      std::vector<std::future<void>> runs;
      for (auto& rig : rigs)
        runs.push_back(std::async(std::launch::async, [&rig, &begin] {
          Share shares[2];
          begin.arrive_and_wait();
          rig->run(kPackets, shares[0], shares[1]);
        }));
      begin.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      for (auto& run : runs) run.wait();
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      for (auto& run : runs) run.get();
      state.SetIterationTime(time.count());
      seconds += time.count();
      packets += kPackets * count;
    }
    state.counters["ns_per_packet"] = seconds * 1e9 / static_cast<double>(packets);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

void few_and_many(benchmark::internal::Benchmark* b) {
  b->ArgNames({"qps", "evs"})->ArgsProduct({{1, 10'000}, {8, 1024}})->UseManualTime();
}
void one(benchmark::internal::Benchmark* b) {
  b->ArgNames({"qps", "evs"})->Args({1, 1024})->UseManualTime();
}

BENCHMARK_CAPTURE(packets_4k, requester, Side::requester)->Apply(few_and_many);
BENCHMARK_CAPTURE(packets_4k, responder, Side::responder)->Apply(few_and_many);
BENCHMARK_CAPTURE(writes_64, requester, Side::requester)->Apply(few_and_many);
BENCHMARK_CAPTURE(writes_64, responder, Side::responder)->Apply(few_and_many);
BENCHMARK_CAPTURE(writes_4k, requester, Side::requester)->Apply(one);
BENCHMARK_CAPTURE(writes_4k, responder, Side::responder)->Apply(one);
BENCHMARK_CAPTURE(writes_8, requester, Side::requester)->Apply(one);
BENCHMARK_CAPTURE(writes_8, responder, Side::responder)->Apply(one);
BENCHMARK_CAPTURE(sends_64, requester, Side::requester)->Apply(one);
BENCHMARK_CAPTURE(sends_64, responder, Side::responder)->Apply(one);
BENCHMARK_CAPTURE(reads_4k, requester, Side::requester)->Apply(one);
BENCHMARK_CAPTURE(reads_4k, responder, Side::responder)->Apply(one);
BENCHMARK_CAPTURE(fetch_adds, requester, Side::requester)->Apply(one);
BENCHMARK_CAPTURE(fetch_adds, responder, Side::responder)->Apply(one);
BENCHMARK_CAPTURE(packets_4k_bursts, requester, Side::requester)->Apply(one);
BENCHMARK_CAPTURE(packets_4k_bursts, responder, Side::responder)->Apply(one);
BENCHMARK_CAPTURE(packets_4k_reordered, requester, Side::requester)->Apply(one);
BENCHMARK_CAPTURE(packets_4k_reordered, responder, Side::responder)->Apply(one);
BENCHMARK_CAPTURE(packets_4k_copied, responder, Side::responder)->Apply(one);

BENCHMARK(engines_side_by_side)->ArgName("engines")->Arg(1)->Arg(2)->UseManualTime();

}  // namespace
