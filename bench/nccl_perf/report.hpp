// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "nccl_perf/launcher.hpp"

namespace mrc::nccl_perf {

/// Median, least and most of a series.
struct Spread {
  double median = 0, min = 0, max = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> values);

/// One line of the table.
struct Row {
  Collective collective{};
  std::uint64_t size = 0;
  Spread seconds;              ///< of an operation at its slowest rank
  std::vector<double> series;  ///< of which that is the spread
  double algorithm_gbps = 0;   ///< by the median
  double bus_gbps = 0;         ///< by the median
};

/// Prints the table while results come, and writes the JSON file.
class Report : public ResultSink {
 public:
  explicit Report(const Options& options) : o_(options) {}

  void add(const std::vector<RankResult>& ranks) override;
  /// At the end. Prints ranks that failed.
  void finish(const Outcome& outcome) const;

 private:
  void print(const Row& row) const;

  const Options& o_;
  std::vector<Row> rows_;
};

}  // namespace mrc::nccl_perf
