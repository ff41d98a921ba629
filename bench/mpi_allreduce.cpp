// SPDX-License-Identifier: Apache-2.0
// All-reduce of MPI over message size, as the OSU micro-benchmarks time it: a barrier, some
// operations untimed, then the mean time of an operation, the largest of all ranks. The sums are
// checked. Rank 0 prints JSON. bench_verbs runs it.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kSmallest = 8, kLargest = 4 << 20;

int repetitions(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((64u << 20) / bytes, 20, 2000));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<double> mine(kLargest / sizeof(double), rank + 1.0), sums(mine.size());
  const double right = ranks * (ranks + 1) / 2.0;
  int wrong = 0;
  for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) {
    const auto count = static_cast<int>(bytes / sizeof(double));
    const int timed = repetitions(bytes), untimed = timed / 10 + 1;
    std::fill(sums.begin(), sums.end(), 0);  // those of the size before would be right here, too
    double start = 0;
    for (int i = 0; i < untimed + timed; ++i) {
      if (i == untimed) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
      }
      MPI_Allreduce(mine.data(), sums.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    const double each = (MPI_Wtime() - start) / timed;
    if (std::any_of(sums.begin(), sums.begin() + count, [=](double s) { return s != right; }))
      ++wrong;
    double slowest = 0;
    MPI_Reduce(&each, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
      std::printf("%s{\"size\": %zu, \"us\": %.3f}", bytes == kSmallest ? "{\"sizes\": [" : ", ",
                  bytes, slowest * 1e6);
  }
  if (rank == 0) std::printf("]}\n");
  int any = 0;
  MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  if (any != 0 && rank == 0) std::fprintf(stderr, "mpi_allreduce: wrong sums\n");
  return any != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
