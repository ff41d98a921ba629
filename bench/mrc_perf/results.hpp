// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/files.hpp"
#include "histogram.hpp"
#include "mrc/stats.hpp"
#include "options.hpp"

namespace mrc::perf {

/// What --json writes; the footer of --help.
inline constexpr const char* kJsonSchema =
    R"(Sizes take K, M, G (binary), counts K, M, G (decimal), times ns, us, ms, s.
Library options may also be set in the environment as MRC_NAME (docs/configuration.md).
The server follows the client: it needs no options but --port, and --planes between two hosts.

--json FILE writes one object:
  version      1
  test         "write", "write_imm", "latency" or "completion"
  parameters   what was asked for, by name
  results      one object per size:
    size, iterations, start (seconds since 1970), seconds, gbps (payload
    acknowledged), mpps, retransmits,
    latency_us {min, p50, p90, p99, p99_9, max, mean} or null,
    checked_bytes, check_errors (bytes that differ; warm-up included in both),
    planes [{plane, gbps, packets, retransmits}]: its share of gbps, all packets
    sent, and packets found lost or trimmed on it, which were sent again
  paths        all paths to the server, from the start of the connection to its end:
    plane, port_path (its number in the plane), ev, state, packets, delivered, losses, ...
  device       all statistics of this side's device, likewise
  interrupted  true after Ctrl-C
  error        null, or why the run failed

Exit status: 0; 1 the run failed or a byte differed; 2 bad options; 130 after Ctrl-C.)";

/// One plane's part of a result.
struct PlaneResult {
  double gbps = 0;
  std::uint64_t packets = 0;
  std::uint64_t retransmits = 0;
};

/// One row.
struct Result {
  std::uint64_t size = 0;
  std::uint64_t iterations = 0;
  double start = 0;  ///< of the measured phase, seconds since 1970
  double seconds = 0;
  double gbps = 0;
  double mpps = 0;
  std::uint64_t retransmits = 0;
  std::uint64_t checked_bytes = 0;
  std::uint64_t check_errors = 0;
  std::optional<Histogram> latency;
  std::vector<PlaneResult> planes;
};

/// All results of a run.
struct Report {
  std::vector<Result> results;
  std::vector<PathReport> paths;
  DeviceStats device;
  std::string error;  ///< empty: none
  bool interrupted = false;
};

[[nodiscard]] nlohmann::ordered_json to_json(const Report& report, const Options& options,
                                             const Config& config);
using tools::check_writable;
using tools::write_file;

void print_table_head(const Parameters& p);
void print_table_row(const Parameters& p, const Result& r);

}  // namespace mrc::perf
