// SPDX-License-Identifier: Apache-2.0
// Memory of connected queue pairs, idle and busy, of a peer, of an empty engine, and of a device.
// `reserved` is what the heap allocates, its own overhead included; `resident` is the part of it
// that has been touched and is in memory.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "mrc/engine/engine.hpp"
#include "mrc/mrc.hpp"

namespace {

using namespace mrc;

struct Memory {
  double reserved = 0, resident = 0;
};

Memory memory() {
  malloc_trim(0);  // otherwise freed heap memory would still be resident
  const struct mallinfo2 info = mallinfo2();
  std::uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return {static_cast<double>(info.uordblks + info.hblkhd),
          static_cast<double>(resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)))};
}

/// The increase since `before`, divided by `count`.
void report(benchmark::State& state, const Memory& before, double count) {
  const Memory now = memory();
  state.counters["reserved"] = (now.reserved - before.reserved) / count;
  state.counters["resident"] = (now.resident - before.resident) / count;
}

std::unique_ptr<engine::Engine> make_engine(std::uint8_t slot, std::uint64_t window = 0) {
  engine::EngineOptions options;
  options.slot = slot;
  options.seed = slot + 1u;
  if (window != 0) {
    options.cc.algorithm = cc::Algorithm::fixed;
    options.cc.fixed_window = window;
  }
  return std::make_unique<engine::Engine>(options);
}

PeerId add_peer(engine::Engine& e, std::uint8_t slot, unsigned planes, unsigned paths) {
  engine::PeerSpec spec;
  spec.slot = slot;
  spec.planes = (PlaneMask{1} << planes) - 1;
  for (unsigned i = 0; i < planes * paths; ++i)
    spec.paths.push_back(
        {Ev{0x1'0000 + i}, static_cast<Plane>(i % planes), static_cast<std::uint16_t>(i / planes)});
  return *e.add_peer(spec);
}

struct Side {
  Side(std::uint8_t slot, std::uint64_t window)
      : engine(make_engine(slot, window)),
        pd(*engine->alloc_pd()),
        cq(*engine->create_cq(4096)),
        peer(add_peer(*engine, static_cast<std::uint8_t>(1 - slot), 8, 16)) {}
  std::unique_ptr<engine::Engine> engine;
  PdId pd;
  CqId cq;
  PeerId peer;
};

/// Two engines, and connections of queue pairs with the default capacity and attributes.
class Pair {
 public:
  /// `window`: of congestion control, in bytes; 0: that of NSCC.
  explicit Pair(std::uint64_t window = 0) : a_(0, window), b_(1, window) {}

  Side& first() { return a_; }
  /// A new connection; returns the first side's queue pair.
  Qpn connect() {
    engine::QpInit init;
    init.attributes.mtu = kMtu;
    Side* const sides[] = {&a_, &b_};
    Qpn qpn[2];
    for (unsigned i = 0; i < 2; ++i) {
      init.pd = sides[i]->pd;
      init.send_cq = init.receive_cq = sides[i]->cq;
      qpn[i] = *sides[i]->engine->create_qp(init);
    }
    for (unsigned i = 0; i < 2; ++i) {
      RemoteQp remote;
      remote.peer = sides[i]->peer;
      remote.qpn = qpn[1 - i];
      remote.start_psn = *sides[1 - i]->engine->start_psn(qpn[1 - i]);
      remote.tag = *sides[1 - i]->engine->tag(qpn[1 - i]);
      remote.dynamic_mpr = remote.trim_nack = true;
      engine::Engine& e = *sides[i]->engine;
      if (e.to_init(qpn[i]) != Errc::ok || e.to_rtr(qpn[i], remote) != Errc::ok ||
          e.to_rts(qpn[i], Time{}) != Errc::ok)
        throw std::runtime_error("queue pair did not connect");
    }
    return qpn[0];
  }
  static constexpr std::uint32_t kMtu = 4096;

 private:
  Side a_, b_;
};

/// Both ends of each connection counted.
void idle_queue_pair(benchmark::State& state) {
  const auto count = static_cast<unsigned>(state.range(0));
  for ([[maybe_unused]] auto round : state) {
    try {
      Pair pair;
      const Memory before = memory();
      Qpn last{};
      for (unsigned i = 0; i < count; ++i) last = pair.connect();
      report(state, before, 2.0 * count);
      state.counters["own_account"] =
          static_cast<double>(pair.first().engine->find_qp(last)->memory());
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  }
}
BENCHMARK(idle_queue_pair)->ArgName("qps")->Arg(1000)->Iterations(1);

/// A queue pair with all its requests posted and as many packets in flight as the congestion window
/// allows, as counted by itself: what it uses of the engine's pools was reserved with the engine.
void busy_queue_pair(benchmark::State& state) {
  for ([[maybe_unused]] auto round : state) {
    try {
      Pair pair(static_cast<std::uint64_t>(state.range(0)));
      const Qpn qpn = pair.connect();
      engine::Engine& e = *pair.first().engine;
      std::vector<std::uint8_t> data(1 << 20);
      const std::uint32_t key =
          *e.register_memory(data.data(), data.size(), Access::local_write, pair.first().pd);
      const Sge sge{data.data(), static_cast<std::uint32_t>(data.size()), key};
      SendRequest request;
      request.sges = {&sge, 1};
      while (e.post_send(qpn, request, Time{}) == Errc::ok) continue;
      wire::TxBurst burst(64, 128);
      do {
        burst.clear();
        e.poll_transmit(Time{}, ~PlaneMask{0}, burst);
      } while (!burst.empty());
      const engine::QueuePairState& qp = *e.find_qp(qpn);
      state.counters["packets"] = qp.tx.window.outstanding();
      state.counters["own_account"] = static_cast<double>(qp.memory());
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  }
}
BENCHMARK(busy_queue_pair)->ArgName("window")->Arg(1 << 20)->Arg(1 << 26)->Iterations(1);

/// Remote devices without queue pairs.
void peer(benchmark::State& state) {
  constexpr unsigned kPeers = 200;
  const auto planes = static_cast<unsigned>(state.range(0));
  const auto paths = static_cast<unsigned>(state.range(1));
  for ([[maybe_unused]] auto round : state) {
    const auto e = make_engine(0);
    const Memory before = memory();
    for (unsigned i = 0; i < kPeers; ++i) (void)add_peer(*e, 1, planes, paths);
    report(state, before, kPeers);
  }
}
BENCHMARK(peer)->ArgNames({"planes", "paths"})->Args({8, 16})->Args({8, 128})->Iterations(1);

/// An engine with default options and nothing in it.
void empty_engine(benchmark::State& state) {
  for ([[maybe_unused]] auto round : state) {
    const Memory before = memory();
    const auto e = make_engine(0);
    report(state, before, 1);
  }
}
BENCHMARK(empty_engine)->Iterations(1);

/// An open device including its engine, and what its C library and thread allocate on first use.
void device(benchmark::State& state) {
  for ([[maybe_unused]] auto round : state) {
    try {
      const Memory before = memory();
      Config config;
      config.planes = {"loopback:" + std::to_string(state.range(0))};
      const Device device(config);
      report(state, before, 1);
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  }
}
BENCHMARK(device)->ArgName("planes")->Arg(1)->Arg(8)->Iterations(1);

}  // namespace
