// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "nccl_plugin/abi/types.hpp"

namespace mrc::nccl_perf {

using nccl_abi::Result;

/// Exit status of a rank that got an error from the plugin, lost a rank or received wrong data.
inline constexpr int kFailedStatus = 3;

/// Ends a rank: a call of the plugin failed, or what it depends on.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The rank was told to end.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Throws if a function of the plugin did not succeed.
inline void check(Result result, const char* function) {
  if (result != Result::success)
    throw Failure(
        fmt::format("{} -> {} ({})", function, to_string(result), static_cast<int>(result)));
}

}  // namespace mrc::nccl_perf
