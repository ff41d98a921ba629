// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1 {

const char* ErrorCategory::name() const noexcept {
  return "mrc";
}

std::string ErrorCategory::message(int e) const {
  return to_string(static_cast<Errc>(e));
}

const std::error_category& error_category() noexcept {
  static const ErrorCategory category;
  return category;
}

}  // namespace mrc::inline v0_1
