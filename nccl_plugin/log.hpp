// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "nccl_plugin/abi/types.hpp"

namespace mrc_nccl {

/// Writes lines to NCCL's log, which adds host, process and rank. Any thread.
class Log {
 public:
  /// The logger of the newest communicator. Null: lines go nowhere.
  void set(nccl_abi::Logger logger) noexcept { logger_.store(logger, std::memory_order_release); }

  /// Shown with NCCL_DEBUG=WARN and above.
  void warn(std::string_view line) const noexcept;
  /// Shown with NCCL_DEBUG=INFO.
  void info(std::string_view line) const noexcept;
  /// As info(), about initialisation: NCCL_DEBUG_SUBSYS can tell the two apart.
  void init_info(std::string_view line) const noexcept;

 private:
  void write(nccl_abi::LogLevel level, unsigned long flags, std::string_view line) const noexcept;

  std::atomic<nccl_abi::Logger> logger_{nullptr};
};

}  // namespace mrc_nccl
