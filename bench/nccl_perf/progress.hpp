// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "mrc/core/types.hpp"
#include "nccl_perf/collective.hpp"
#include "nccl_perf/setup.hpp"

namespace mrc::nccl_perf {

/// One operation of a rank.
struct Operation {
  const std::vector<Program>* programs;
  const std::byte* input;
  std::byte* output;
};

/// A rank's progress thread: drives all connections and does the work of NCCL's kernels in between,
/// for all networks alike.
///
/// Thread safety: all functions by the service thread.
class Progress {
 public:
  /// The connections are this thread's while run() is called. `patience`: how long nothing may
  /// move.
  Progress(const Network& network, Connections& connections, Duration patience);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Runs the operation and returns how long it took. Throws what the thread came across: Failure,
  /// Interrupted.
  Duration run(const Operation& operation);

 private:
  void serve();
  void execute();
  bool advance(std::size_t program);
  void expect_messages();
  [[nodiscard]] bool is_idle() const;
  void do_step(const Step& step);

  const Network& network_;
  Connections& connections_;
  Duration patience_;
  Operation operation_{};
  std::vector<std::size_t> next_;  // step of each program
  Duration time_{};
  std::exception_ptr error_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false, ended_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace mrc::nccl_perf
