// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <utility>
#include <vector>

namespace mrc::inline v0_1::detail {

/// In a forked child: keeps what stands for a thread that exists in the parent only. It can neither
/// be joined here nor destroyed, and its memory may be another's. Not thread-safe.
inline void leave_to_parent(std::thread&& thread) {
  static std::vector<std::thread>& others = *new std::vector<std::thread>;  // so it is no leak
  others.push_back(std::move(thread));
}

}  // namespace mrc::inline v0_1::detail
