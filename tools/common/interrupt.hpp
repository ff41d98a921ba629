// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <span>

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

/// Holds SIGINT and SIGTERM back while it lives, in this thread and those that it starts, but for
/// its sleep(): so none comes between a look at g_interrupted and the sleep.
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

  /// ppoll(), which a signal ends; not at all once interrupted.
  void sleep(std::span<pollfd> events, const timespec* limit) const noexcept {
    if (!g_interrupted) (void)::ppoll(events.data(), events.size(), limit, &before_);
  }

 private:
  sigset_t before_{};
};

}  // namespace mrc::bench
