// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <span>

namespace mrc::tools {

/// Exit status after Ctrl-C.
inline constexpr int kInterruptedStatus = 130;

/// Set by SIGINT and SIGTERM: the program ends early and reports its results so far. A second
/// signal ends the process at once.
inline std::atomic<bool> g_interrupted{false};

extern "C" inline void on_interrupt(int) {
  if (g_interrupted.exchange(true)) _exit(kInterruptedStatus);
}

/// Makes SIGINT and SIGTERM set g_interrupted, and ignores SIGPIPE.
inline void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

/// Blocks SIGINT and SIGTERM during its lifetime, in this thread and those that it starts, except
/// in sleep(): no signal is lost between a check of g_interrupted and the sleep.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// ppoll() that signals interrupt; returns at once when already interrupted.
  void sleep(std::span<pollfd> events, const timespec* limit) const noexcept {
    if (!g_interrupted) (void)::ppoll(events.data(), events.size(), limit, &before_);
  }

 private:
  sigset_t before_{};
};

}  // namespace mrc::tools
