// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/plane/verbs/verbs_options.hpp"

namespace mrc::inline v0_1::port {

void VerbsPortOptions::check() const {
  constexpr const char* kKind = "verbs port";
  PortOptions::check(kKind);
  if (paths == 0 || paths > kMaxPaths) reject(kKind, "paths", paths, "1 to 64");
  if (send_depth < 16 || send_depth > 4096) reject(kKind, "send_depth", send_depth, "16 to 4096");
}

}  // namespace mrc::inline v0_1::port
