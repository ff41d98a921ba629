// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/version.hpp"

namespace mrc::inline v0_1 {

int version() noexcept {
  return MRC_VERSION;
}
const char* version_string() noexcept {
  return MRC_VERSION_STRING;
}

}  // namespace mrc::inline v0_1
