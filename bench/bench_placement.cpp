// SPDX-License-Identifier: Apache-2.0
// Copies of a packet's payload into the application's memory, by the order that the region
// promises: none (memcpy), that of a message, that of the bytes in each line. Memory in the
// first-level cache (one target), in the second (256 KiB of targets), and in none (64 MiB).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "mrc/engine/memory.hpp"

namespace {

void copy_relaxed(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
  std::memcpy(to, from, n);
}

template <void (*kCopy)(std::uint8_t*, const std::uint8_t*, std::size_t) noexcept>
void copy(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto targets = static_cast<std::size_t>(state.range(1));
  std::vector<std::uint8_t> from(n + 64, 1), to(n * targets + 128);
  std::uint8_t* first = to.data() + (128 - reinterpret_cast<std::uintptr_t>(to.data()) % 128);
  std::size_t i = 0;
  for (auto _ : state) {
    kCopy(first + i * n, from.data() + 52, n);
    benchmark::ClobberMemory();
    if (++i == targets) i = 0;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * n));
}

constexpr std::int64_t kNear = 256 << 10, kFar = 64 << 20;
void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"bytes", "targets"});
  for (const std::int64_t n : {64, 256, 1024, 1408, 4096, 16384})
    b->Args({n, 1})->Args({n, kNear / n})->Args({n, kFar / n});
}

BENCHMARK(copy<copy_relaxed>)->Name("copy/relaxed")->Apply(shapes);
BENCHMARK(copy<mrc::engine::copy_lines>)->Name("copy/lines")->Apply(shapes);
BENCHMARK(copy<mrc::engine::copy_ascending>)->Name("copy/message")->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();
