// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/system.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace mrc;

namespace blocked_signals_test {

bool blocked(int signal) {
  ::sigset_t now;
  REQUIRE(::pthread_sigmask(SIG_SETMASK, nullptr, &now) == 0);
  return ::sigismember(&now, signal) == 1;
}

TEST_CASE("blocked signals: in this thread and those it starts, but for faults, until the end") {
  REQUIRE_FALSE(blocked(SIGUSR1));
  std::thread started;
  bool inherits = false;
  {
    BlockedSignals here;
    CHECK(blocked(SIGUSR1));
    CHECK(blocked(SIGALRM));
    CHECK_FALSE(blocked(SIGSEGV));
    here.keep(SIGALRM);
    started = std::thread([&] { inherits = blocked(SIGUSR1); });
  }
  started.join();
  CHECK(inherits);
  CHECK_FALSE(blocked(SIGUSR1));
  CHECK(blocked(SIGALRM));
  ::sigset_t alarm;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  CHECK(::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr) == 0);
}

}  // namespace blocked_signals_test
