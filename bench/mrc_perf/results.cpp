// SPDX-License-Identifier: Apache-2.0
#include "results.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "mrc/core/error.hpp"
#include "mrc/stats_json.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

nlohmann::ordered_json latency_json(const Histogram& h) {
  return {{"min", microseconds(h.min())},
          {"p50", microseconds(h.percentile(50))},
          {"p90", microseconds(h.percentile(90))},
          {"p99", microseconds(h.percentile(99))},
          {"p99_9", microseconds(h.percentile(99.9))},
          {"max", microseconds(h.max())},
          {"mean", microseconds(h.mean())}};
}

nlohmann::ordered_json result_json(const Result& r) {
  nlohmann::ordered_json planes = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < r.planes.size(); ++i) {
    planes.push_back({{"plane", i},
                      {"gbps", r.planes[i].gbps},
                      {"packets", r.planes[i].packets},
                      {"retransmits", r.planes[i].retransmits}});
  }
  return {{"size", r.size},
          {"iterations", r.iterations},
          {"start", r.start},
          {"seconds", r.seconds},
          {"gbps", r.gbps},
          {"mpps", r.mpps},
          {"latency_us", r.latency ? latency_json(*r.latency) : nlohmann::ordered_json(nullptr)},
          {"retransmits", r.retransmits},
          {"checked_bytes", r.checked_bytes},
          {"check_errors", r.check_errors},
          {"planes", std::move(planes)}};
}

}  // namespace

nlohmann::ordered_json to_json(const Report& report, const Options& options, const Config& config) {
  nlohmann::ordered_json parameters = to_json(options.parameters);
  parameters["host"] = options.host;
  parameters["port"] = options.port;
  parameters["duration_s"] = options.iterations == 0 ? seconds(options.duration) : 0.0;
  parameters["iters"] = options.iterations;
  parameters["warmup_s"] = seconds(options.warmup);
  parameters["sizes"] = options.sizes;
  parameters["planes"] = config.planes;
  parameters["paths"] = config.paths;
  parameters["mtu"] = config.get("mtu");
  parameters["icrc"] = config.get("icrc");
  for (const auto& [name, value] : options.device) parameters["options"][name] = value;

  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Result& r : report.results) results.push_back(result_json(r));
  return {{"version", 1},
          {"test", to_string(options.parameters.test)},
          {"parameters", std::move(parameters)},
          {"results", std::move(results)},
          {"paths", mrc::to_json(std::span<const PathReport>(report.paths))},
          {"device", mrc::to_json(report.device)},
          {"interrupted", report.interrupted},
          {"error", report.error.empty() ? nlohmann::ordered_json(nullptr)
                                         : nlohmann::ordered_json(report.error)}};
}

void print_table_head(const Parameters& p) {
  if (p.one_by_one()) {
    fmt::print("{:>10} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}\n", "bytes",
               p.test == Test::latency ? "pings" : "writes", "min us", "p50 us", "p90 us", "p99 us",
               "p99.9 us", "max us", "mean us");
  } else {
    fmt::print("{:>10} {:>10} {:>9} {:>8} {:>11} {:>14} {:>12}\n", "bytes", "messages", "Gb/s",
               "Mpps", "retransmits", "checked bytes", "check errors");
  }
  std::fflush(stdout);
}

void print_table_row(const Parameters& p, const Result& r) {
  if (p.one_by_one() && r.latency) {
    const Histogram& h = *r.latency;
    fmt::print("{:>10} {:>7} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>7.2f}\n",
               r.size, r.iterations, microseconds(h.min()), microseconds(h.percentile(50)),
               microseconds(h.percentile(90)), microseconds(h.percentile(99)),
               microseconds(h.percentile(99.9)), microseconds(h.max()), microseconds(h.mean()));
  } else {
    fmt::print("{:>10} {:>10} {:>9.3f} {:>8.4f} {:>11} {:>14} {:>12}\n", r.size, r.iterations,
               r.gbps, r.mpps, r.retransmits, p.check ? fmt::to_string(r.checked_bytes) : "-",
               p.check ? fmt::to_string(r.check_errors) : "-");
  }
  std::fflush(stdout);
}

}  // namespace mrc::perf
