// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/log.hpp"

namespace mrc_nccl {

void Log::warn(std::string_view line) const noexcept {
  write(nccl_abi::LogLevel::warn, nccl_abi::kLogInit | nccl_abi::kLogNet, line);
}
void Log::info(std::string_view line) const noexcept {
  write(nccl_abi::LogLevel::info, nccl_abi::kLogNet, line);
}
void Log::init_info(std::string_view line) const noexcept {
  write(nccl_abi::LogLevel::info, nccl_abi::kLogInit | nccl_abi::kLogNet, line);
}

/// NCCL names a file and a line with each warning.
constexpr const char* kSource = "libnccl-net-mrc.so";

void Log::write(nccl_abi::LogLevel level, unsigned long flags,
                std::string_view line) const noexcept {
  if (const auto logger = logger_.load(std::memory_order_acquire); logger != nullptr)
    logger(level, flags, kSource, 0, "NET/MRC : %.*s", static_cast<int>(line.size()), line.data());
}

}  // namespace mrc_nccl
