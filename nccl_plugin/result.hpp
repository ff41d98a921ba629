// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "mrc/core/error.hpp"
#include "nccl_plugin/abi/types.hpp"

namespace mrc_nccl {

using nccl_abi::Result;

/// A failure with the result that NCCL gets. Only set-up throws it.
class Failure : public std::runtime_error {
 public:
  Failure(Result result, const std::string& text) : std::runtime_error(text), result_(result) {}
  [[nodiscard]] Result result() const noexcept { return result_; }

 private:
  Result result_;
};

}  // namespace mrc_nccl
