// SPDX-License-Identifier: Apache-2.0
// The kernels of the CRC, each that this processor has, and crc32(), which chooses: on bytes in the
// first-level cache, as many as a packet's headers have, and as a payload. `chained` starts each
// call with the result of the one before, which shows how long one takes; otherwise calls overlap.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mrc/wire/icrc.hpp"

namespace {

using mrc::wire::Crc32Function;

template <bool kChained>
void run(benchmark::State& state, Crc32Function* crc32) {
  const std::vector<std::uint8_t> data(static_cast<std::size_t>(state.range(0)), 1);
  std::uint32_t crc = 0;
  for (auto _ : state) {
    crc = crc32(kChained ? crc : 0, data);
    benchmark::DoNotOptimize(crc);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void add(const std::string& name, Crc32Function* function) {
  const auto sizes = [](benchmark::internal::Benchmark* b) {
    b->ArgName("bytes");
    for (const int n : {16, 32, 64, 76, 104, 128, 256, 1024, 1408, 4096, 16384}) b->Arg(n);
  };
  benchmark::RegisterBenchmark(("crc32/" + name).c_str(), run<false>, function)->Apply(sizes);
  benchmark::RegisterBenchmark(("crc32/" + name + "/chained").c_str(), run<true>, function)
      ->Apply(sizes);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add("chosen", &mrc::wire::crc32);
  for (const mrc::wire::Crc32Kernel& kernel : mrc::wire::crc32_kernels())
    if (kernel.supported) add(kernel.name, kernel.function);
  benchmark::RunSpecifiedBenchmarks();
}
