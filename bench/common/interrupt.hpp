// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace mrc::bench {

/// Exit status of a program that was ended by Ctrl-C.
inline constexpr int kInterruptedStatus = 130;

/// Set by SIGINT and SIGTERM: what runs ends early and reports what it has. A second signal ends
/// the process at once.
inline std::atomic<bool> g_interrupted{false};

extern "C" inline void on_interrupt(int) {
  if (g_interrupted.exchange(true)) _exit(kInterruptedStatus);
}

/// Has SIGINT and SIGTERM set g_interrupted, and SIGPIPE ignored.
inline void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

}  // namespace mrc::bench
