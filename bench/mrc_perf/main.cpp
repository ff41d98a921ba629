// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <exception>

#include "control.hpp"
#include "options.hpp"
#include "programs.hpp"

/// mrc_perf: bandwidth and latency of RDMA Writes over MRC between two processes.
int main(int argc, char** argv) {
  try {
    const mrc::perf::Options options = mrc::perf::parse_options(argc, argv);
    mrc::perf::catch_signals();
    return options.server() ? mrc::perf::run_server(options) : mrc::perf::run_client(options);
  } catch (const mrc::perf::Exit& exit) {
    return exit.code;
  } catch (const mrc::Error& error) {
    fmt::print(stderr, "mrc_perf: {}\n", error.what());
    return error.code() == mrc::Errc::invalid_argument ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "mrc_perf: {}\n", error.what());
    return 1;
  }
}
