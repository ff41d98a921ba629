// SPDX-License-Identifier: Apache-2.0
// Memory of an idle connected queue pair, of a peer, and of an engine without either, as the
// allocator accounts for it: every byte that the heap hands out, its own overhead included.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

#include "mrc/engine/engine.hpp"

namespace {

using namespace mrc;

/// Bytes that the heap has given out.
double heap() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

std::unique_ptr<engine::Engine> make_engine(std::uint8_t slot) {
  engine::EngineOptions options;
  options.slot = slot;
  options.seed = slot + 1u;
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
  explicit Side(std::uint8_t slot)
      : engine(make_engine(slot)),
        pd(*engine->alloc_pd()),
        cq(*engine->create_cq(4096)),
        peer(add_peer(*engine, static_cast<std::uint8_t>(1 - slot), 8, 16)) {}
  std::unique_ptr<engine::Engine> engine;
  PdId pd;
  CqId cq;
  PeerId peer;
};

Qpn create(Side& side) {
  engine::QpInit init;
  init.pd = side.pd;
  init.send_cq = init.receive_cq = side.cq;
  return *side.engine->create_qp(init);
}

void connect(Side& side, Qpn qpn, const Side& other, Qpn other_qpn) {
  RemoteQp remote;
  remote.peer = side.peer;
  remote.qpn = other_qpn;
  remote.start_psn = *other.engine->start_psn(other_qpn);
  remote.dynamic_mpr = remote.trim_nack = true;
  if (side.engine->to_init(qpn) != Errc::ok || side.engine->to_rtr(qpn, remote) != Errc::ok ||
      side.engine->to_rts(qpn, Time{}) != Errc::ok)
    throw std::runtime_error("queue pair did not connect");
}

/// Queue pairs with the default capacity and attributes, both ends of each connection counted.
void idle_queue_pair(benchmark::State& state) {
  const auto count = static_cast<unsigned>(state.range(0));
  for ([[maybe_unused]] auto round : state) {
    try {
      Side a(0), b(1);
      const double before = heap();
      Qpn last{};
      for (unsigned i = 0; i < count; ++i) {
        const Qpn x = create(a), y = create(b);
        connect(a, x, b, y);
        connect(b, y, a, x);
        last = x;
      }
      state.counters["heap_bytes"] = (heap() - before) / (2.0 * count);
      state.counters["own_account"] = static_cast<double>(a.engine->find_qp(last)->memory());
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  }
}
BENCHMARK(idle_queue_pair)->ArgName("qps")->Arg(1000)->Iterations(1);

/// Remote devices without queue pairs.
void peer(benchmark::State& state) {
  constexpr unsigned kPeers = 200;
  const auto planes = static_cast<unsigned>(state.range(0));
  const auto paths = static_cast<unsigned>(state.range(1));
  for ([[maybe_unused]] auto round : state) {
    const auto e = make_engine(0);
    const double before = heap();
    for (unsigned i = 0; i < kPeers; ++i) (void)add_peer(*e, 1, planes, paths);
    state.counters["heap_bytes"] = (heap() - before) / kPeers;
  }
}
BENCHMARK(peer)->ArgNames({"planes", "paths"})->Args({8, 16})->Args({8, 128})->Iterations(1);

/// An engine with default options and nothing in it.
void empty_engine(benchmark::State& state) {
  for ([[maybe_unused]] auto round : state) {
    const double before = heap();
    const auto e = make_engine(0);
    state.counters["heap_bytes"] = heap() - before;
  }
}
BENCHMARK(empty_engine)->Iterations(1);

}  // namespace
