// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "nccl_plugin/abi/types.hpp"
#include "nccl_plugin/log.hpp"

namespace mrc_nccl {

class Connection;
class Sender;

/// What belongs to one communicator (version 11 and later); older versions of the interface have
/// one context for all. Its connections keep it alive. Any thread.
class Context {
 public:
  Context(const Log& the_log, nccl_abi::ProfilerCallback callback, bool use_hints)
      : log_(the_log), profiler_(callback), hints_(use_hints) {}

  [[nodiscard]] const Log& log() const noexcept { return log_; }
  /// Null: nobody wants events.
  [[nodiscard]] nccl_abi::ProfilerCallback profiler() const noexcept { return profiler_; }

  /// How many peers and flows NCCL is about to use: reaches the congestion control of this
  /// communicator's senders, and of those that are still to come.
  void set_attributes(const nccl_abi::Attributes& attributes) noexcept;
  void add(Sender* sender);
  /// A connection that is about to be closed.
  void remove(const Connection* connection) noexcept;

 private:
  const Log& log_;
  const nccl_abi::ProfilerCallback profiler_;
  const bool hints_;
  std::mutex mutex_;
  nccl_abi::CommAttributes send_;
  std::vector<Sender*> senders_;
};

}  // namespace mrc_nccl
