// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "nccl_perf/launcher.hpp"

namespace mrc::nccl_perf {

/// Median, least and most of a series.
struct Spread {
  double median = 0, min = 0, max = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> values);

/// Of two networks that take turns.
struct Ratio {
  double total = 0;         ///< of the times of all turns: in a few operations packets are lost
  double min = 0, max = 0;  ///< of single turns
};

/// One line of the table.
struct Row {
  Collective collective{};
  std::uint64_t size = 0;
  std::size_t net = 0;         ///< index into Options::nets()
  Spread seconds;              ///< of an operation at its slowest rank
  std::vector<double> series;  ///< of which that is the spread
  double algorithm_gbps = 0;   ///< by the median
  double bus_gbps = 0;         ///< by the median
  /// Of the second network's rows: the first one's bandwidth by its own.
  std::optional<Ratio> ratio{};
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
  [[nodiscard]] std::optional<Ratio> ratio_of(const Row& row) const;

  const Options& o_;
  std::vector<Row> rows_;
};

}  // namespace mrc::nccl_perf
