// SPDX-License-Identifier: Apache-2.0
#include "common/program.hpp"
#include "control.hpp"
#include "options.hpp"
#include "programs.hpp"

/// mrc_perf: bandwidth and latency of RDMA Writes over MRC between two processes.
int main(int argc, char** argv) {
  return mrc::tools::run_main("mrc_perf", [&] {
    const mrc::perf::Options options = mrc::perf::parse_options(argc, argv);
    mrc::perf::catch_signals();
    return options.server() ? mrc::perf::run_server(options) : mrc::perf::run_client(options);
  });
}
