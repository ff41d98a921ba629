// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/files.hpp"

namespace mrc::nccl_perf {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Row& row) {
  return {{"collective", to_string(row.collective)},
          {"size", row.size},
          {"seconds",
           {{"median", row.seconds.median},
            {"min", row.seconds.min},
            {"max", row.seconds.max},
            {"all", row.series}}},
          {"algorithm_gbps", row.algorithm_gbps},
          {"bus_gbps", row.bus_gbps}};
}

Json json_of(const Outcome& outcome, const Options& o) {
  Json ends = Json::array();
  for (const RankEnd& end : outcome.ends)
    ends.push_back({{"status", end.status}, {"seconds", end.seconds}, {"late", end.was_late}});
  Json kill = nullptr;
  if (o.kill && outcome.killed) kill = {{"rank", o.kill->rank}, {"seconds", *outcome.killed}};
  return {{"ranks", ends},
          {"kill", kill},
          {"checked_bytes", outcome.checked},
          {"interrupted", outcome.interrupted}};
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

void Report::add(const std::vector<RankResult>& ranks) {
  Row row;
  row.collective = o_.collectives[ranks[0].collective];
  row.size = whole_size(row.collective, o_.shape.ranks, o_.sizes[ranks[0].size]);
  row.series.assign(ranks[0].seconds.size(), 0);
  for (const RankResult& r : ranks) {
    for (std::size_t i = 0; i < row.series.size() && i < r.seconds.size(); ++i)
      row.series[i] = std::max(row.series[i], r.seconds[i]);
  }
  row.seconds = spread_of(row.series);
  if (row.seconds.median > 0)
    row.algorithm_gbps = static_cast<double>(row.size) * 8e-9 / row.seconds.median;
  row.bus_gbps = row.algorithm_gbps * bus_factor(row.collective, o_.shape.ranks);
  if (!o_.quiet) print(row);
  rows_.push_back(std::move(row));
}

void Report::print(const Row& row) const {
  if (rows_.empty())
    fmt::print("{:>14} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "collective", "bytes",
               "median us", "min us", "max us", "alg Gb/s", "bus Gb/s");
  fmt::print("{:>14} {:>10} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.3f} {:>10.3f}\n",
             to_string(row.collective), row.size, row.seconds.median * 1e6, row.seconds.min * 1e6,
             row.seconds.max * 1e6, row.algorithm_gbps, row.bus_gbps);
  std::fflush(stdout);
}

void Report::finish(const Outcome& outcome) const {
  for (std::size_t r = 0; r < outcome.ends.size(); ++r) {
    const RankEnd& end = outcome.ends[r];
    if (end.was_late)
      fmt::print(stderr, "rank {}: did not end by itself, long after another rank had ended\n", r);
    else if (end.status > 128 && !outcome.interrupted)
      fmt::print(stderr, "rank {}: ended by signal {}\n", r, end.status - 128);
  }
  if (o_.json.empty()) return;
  Json results = Json::array();
  for (const Row& row : rows_) results.push_back(json_of(row));
  Json all = {{"version", 1},
              {"command", o_.command},
              {"net", o_.net},
              {"ranks", o_.shape.ranks},
              {"channels", o_.shape.channels},
              {"chunk", o_.shape.chunk},
              {"p2p_chunk", o_.shape.p2p_chunk},
              {"results", std::move(results)},
              {"end", json_of(outcome, o_)}};
  tools::write_file(o_.json, all.dump(2) + "\n");
}

}  // namespace mrc::nccl_perf
