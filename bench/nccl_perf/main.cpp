// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/interrupt.hpp"
#include "common/program.hpp"
#include "nccl_perf/failure.hpp"
#include "nccl_perf/report.hpp"

/// nccl_perf: collective operations through a net plugin of NCCL, or over TCP.
int main(int argc, char** argv) {
  using namespace mrc;
  return tools::run_main("nccl_perf", [&] {
    const nccl_perf::Options options = nccl_perf::parse_options(argc, argv);
    tools::catch_signals();
    nccl_perf::Report report(options);
    const nccl_perf::Outcome outcome = nccl_perf::launch(options, report);
    report.finish(outcome);
    if (outcome.interrupted) return tools::kInterruptedStatus;
    const bool good = std::all_of(outcome.ends.begin(), outcome.ends.end(),
                                  [](const auto& end) { return end.status == 0; });
    return good ? 0 : nccl_perf::kFailedStatus;
  });
}
