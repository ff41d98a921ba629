// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/files.hpp"

namespace mrc::nccl_perf {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Spread& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

Json json_of(const Row& row, const Options& o) {
  Json seconds = json_of(row.seconds);
  seconds["all"] = row.series;
  Json json = {{"collective", to_string(row.collective)},
               {"size", row.size},
               {"net", o.nets()[row.net]},
               {"seconds", std::move(seconds)},
               {"algorithm_gbps", row.algorithm_gbps},
               {"bus_gbps", row.bus_gbps}};
  if (row.ratio)
    json["ratio"] = {{"total", row.ratio->total}, {"min", row.ratio->min}, {"max", row.ratio->max}};
  return json;
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
  row.net = ranks[0].net;
  row.series.assign(ranks[0].seconds.size(), 0);
  for (const RankResult& r : ranks) {
    for (std::size_t i = 0; i < row.series.size() && i < r.seconds.size(); ++i)
      row.series[i] = std::max(row.series[i], r.seconds[i]);
  }
  row.seconds = spread_of(row.series);
  if (row.seconds.median > 0)
    row.algorithm_gbps = static_cast<double>(row.size) * 8e-9 / row.seconds.median;
  row.bus_gbps = row.algorithm_gbps * bus_factor(row.collective, o_.shape.ranks);
  row.ratio = ratio_of(row);
  if (!o_.quiet) print(row);
  rows_.push_back(std::move(row));
}

std::optional<Ratio> Report::ratio_of(const Row& row) const {
  if (row.net == 0 || rows_.size() < row.net) return std::nullopt;
  const std::vector<double>& first = rows_[rows_.size() - row.net].series;
  std::vector<double> turns;
  double times[2] = {};
  for (std::size_t i = 0; i < std::min(first.size(), row.series.size()); ++i) {
    turns.push_back(row.series[i] / first[i]);
    times[0] += first[i];
    times[1] += row.series[i];
  }
  const Spread spread = spread_of(std::move(turns));
  return Ratio{times[1] / times[0], spread.min, spread.max};
}

void Report::print(const Row& row) const {
  const bool several = !o_.against.empty();
  if (rows_.empty()) {
    fmt::print("{:>15} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}", "collective", "bytes",
               "median us", "min us", "max us", "alg Gb/s", "bus Gb/s");
    fmt::print("{}\n", several ? "  network, bandwidth of the first by its own" : "");
  }
  fmt::print("{:>15} {:>10} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.3f} {:>10.3f}",
             to_string(row.collective), row.size, row.seconds.median * 1e6, row.seconds.min * 1e6,
             row.seconds.max * 1e6, row.algorithm_gbps, row.bus_gbps);
  if (several) fmt::print("  {}", o_.nets()[row.net]);
  if (row.ratio)
    fmt::print(", {:.2f} ({:.2f} .. {:.2f})", row.ratio->total, row.ratio->min, row.ratio->max);
  fmt::print("\n");
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
  for (const Row& row : rows_) results.push_back(json_of(row, o_));
  Json all = {{"version", 1},
              {"command", o_.command},
              {"net", o_.net},
              {"against", o_.against.empty() ? Json(nullptr) : Json(o_.against)},
              {"ranks", o_.shape.ranks},
              {"channels", o_.shape.channels},
              {"chunk", o_.shape.chunk},
              {"p2p_chunk", o_.shape.p2p_chunk},
              {"results", std::move(results)},
              {"end", json_of(outcome, o_)}};
  tools::write_file(o_.json, all.dump(2) + "\n");
}

}  // namespace mrc::nccl_perf
