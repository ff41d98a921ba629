// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace mrc::inline v0_1 {

/// Blocks signals of the calling thread while it exists, so that the program's handlers do not run
/// there; signals that report a fault of the thread itself stay as they are. Threads that are
/// started meanwhile inherit it, for as long as they run. One thread.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    ::sigset_t set;
    ::sigfillset(&set);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      ::sigdelset(&set, fault);
    (void)::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockedSignals() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// The signal stays blocked when this object ends.
  void keep(int signal) noexcept { ::sigaddset(&before_, signal); }

 private:
  ::sigset_t before_;
};

}  // namespace mrc::inline v0_1
