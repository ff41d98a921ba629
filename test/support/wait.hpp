// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

/// Waiting for what has to happen.
namespace mrc::test {

/// No test waits longer for it, on a machine however busy. Only a hang gets there.
inline constexpr std::chrono::seconds kPatience{60};

inline void sleep_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// For what is due any moment, thousands of times: looking at it all the time would take the
/// processor from those who bring it about.
inline void nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

/// Whether the condition becomes true, within the patience of tests. Between two looks at it
/// `meanwhile` is called: it sleeps, or makes progress.
template <class Condition, class Meanwhile = void (*)()>
[[nodiscard]] bool eventually(Condition&& condition, Meanwhile&& meanwhile = sleep_a_little) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    meanwhile();
  }
  return true;
}

}  // namespace mrc::test
