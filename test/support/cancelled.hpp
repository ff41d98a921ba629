// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <pthread.h>

/// Threads that are cancelled.
namespace mrc::test {

/// Runs `body` in a thread of its own, and `meanwhile(thread)` beside it. Whether it was cancelled.
template <class Body, class Meanwhile>
[[nodiscard]] bool cancelled(Body& body, const Meanwhile& meanwhile) {
  ::pthread_t thread{};
  const auto run = [](void* data) -> void* {
    (*static_cast<Body*>(data))();
    return nullptr;
  };
  REQUIRE(::pthread_create(&thread, nullptr, run, &body) == 0);
  meanwhile(thread);
  void* result = nullptr;
  REQUIRE(::pthread_join(thread, &result) == 0);
  return result == PTHREAD_CANCELED;
}

}  // namespace mrc::test
