// SPDX-License-Identifier: Apache-2.0
// What MPI programs do most, with sums that are known beforehand: a ring, all-reduce, all-to-all.
// Compiled with mpicxx by mpi_test.sh. Ends with 1 where a sum is wrong.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

namespace {

int rank = 0, ranks = 0;
int wrong = 0;

void expect(const char* what, std::size_t count, std::int64_t got, std::int64_t wanted) {
  if (got == wanted) return;
  std::printf("rank %d: %s of %zu: %lld, not %lld\n", rank, what, count,
              static_cast<long long>(got), static_cast<long long>(wanted));
  ++wrong;
}

/// A message goes once around, and each rank adds its number to every element.
void ring(std::size_t count) {
  std::vector<std::int64_t> values(count, 0);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  const auto n = static_cast<int>(count);
  if (rank == 0) MPI_Send(values.data(), n, MPI_INT64_T, next, 1, MPI_COMM_WORLD);
  MPI_Recv(values.data(), n, MPI_INT64_T, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (std::int64_t& value : values) value += rank;
  if (rank != 0) MPI_Send(values.data(), n, MPI_INT64_T, next, 1, MPI_COMM_WORLD);
  const std::int64_t last = rank == 0 ? ranks - 1 : rank;  // who has added before, up to that one
  const std::int64_t each = last * (last + 1) / 2;
  expect("ring", count, std::accumulate(values.begin(), values.end(), std::int64_t{0}),
         each * static_cast<std::int64_t>(count));
}

void all_reduce(std::size_t count) {
  std::vector<std::int64_t> mine(count), sums(count);
  for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<std::int64_t>(i) * (rank + 1);
  MPI_Allreduce(mine.data(), sums.data(), static_cast<int>(count), MPI_INT64_T, MPI_SUM,
                MPI_COMM_WORLD);
  const std::int64_t factor = std::int64_t{ranks} * (ranks + 1) / 2;
  for (std::size_t i = 0; i < count; ++i)
    expect("all-reduce", count, sums[i], static_cast<std::int64_t>(i) * factor);
}

void all_to_all(std::size_t count) {
  const std::size_t all = count * static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> out(all), in(all);
  for (std::size_t i = 0; i < all; ++i) out[i] = static_cast<std::int64_t>(i) + 1000003 * rank;
  const auto n = static_cast<int>(count);
  MPI_Alltoall(out.data(), n, MPI_INT64_T, in.data(), n, MPI_INT64_T, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < all; ++i) {
    const auto from = static_cast<std::int64_t>(i / count);
    const auto place = static_cast<std::int64_t>(i % count + count * std::size_t(rank));
    expect("all-to-all", count, in[i], place + 1000003 * from);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const std::size_t count : {1u, 100u, 5000u, 100'000u}) {
    ring(count);
    all_reduce(count);
    all_to_all(count);
  }
  int all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all_wrong == 0) std::printf("%d ranks: all sums are right\n", ranks);
  MPI_Finalize();
  return all_wrong == 0 ? 0 : 1;
}
