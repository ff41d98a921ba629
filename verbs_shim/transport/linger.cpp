// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/transport/linger.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "mrc/core/system.hpp"

namespace mrc_verbs {

namespace {

using Clock = std::chrono::steady_clock;

struct Retired {
  Linger::Parts parts;
  Clock::time_point until;
};

struct List {
  std::mutex mutex;
  std::deque<Retired> retired;  ///< the oldest first
  ::pid_t process = ::getpid();
};

/// Never destroyed: programs may still call while they exit. A child begins anew: what lingers is
/// the parent's.
List*& list() {
  static List* instance = [] {
    (void)::pthread_atfork(nullptr, nullptr, [] { list() = new List; });
    return new List;
  }();
  return instance;
}

/// Lets acknowledgements leave that are due. Bounded, since peers may go on sending.
void flush(mrc::Device& device) {
  for (int round = 0; round < 16 && device.progress(); ++round) {
  }
}

/// Takes those out of the list that `over` holds for; they are destroyed after the lock is free.
template <class Over>
void end_those(Over&& over) {
  List& all = *list();
  std::deque<Retired> gone;
  const std::lock_guard lock(all.mutex);
  while (!all.retired.empty() && over(all.retired.front())) {
    gone.push_back(std::move(all.retired.front()));
    all.retired.pop_front();
  }
}

/// When the time of the newest is over.
Clock::time_point end_of_newest() {
  List& all = *list();
  const std::lock_guard lock(all.mutex);
  return all.retired.empty() ? Clock::time_point{} : all.retired.back().until;
}

/// Sleeps until then. Without the helper thread, progress is made here: nobody else would answer.
void wait(Clock::time_point until) {
  const std::shared_ptr<Host> host = Host::current();
  if (!host || host->settings().config.helper) return std::this_thread::sleep_until(until);
  for (; Clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    flush(host->device());
}

/// Before the process ends. Whoever still has open queue pairs has as much time, from now, as if it
/// had destroyed them. Signals wait meanwhile: what a handler uses may be gone, since main() has
/// returned. Timers stay blocked: without this wait the program would have ended before.
void wait_for_those() {
  if (list()->process != ::getpid()) return;
  Clock::time_point until = end_of_newest();
  if (const auto host = Host::current(); host && host->anything_received())
    until = Clock::now() + Linger::kTime;
  mrc::BlockedSignals blocked;
  for (const int timer : {SIGALRM, SIGVTALRM, SIGPROF}) blocked.keep(timer);
  wait(std::min(until, Clock::now() + Linger::kTime));
}

}  // namespace

void Linger::retire(Parts parts, bool idle) {
  end_old();
  // The program may give its memory back as soon as its queue pair is gone.
  (void)parts.qp->stop_receiving();
  (void)parts.qp->discard_completions();
  if (parts.qp->stats().rx_packets == 0) return;
  flush(parts.host->device());
  if (!idle) return;
  List& all = *list();
  const std::lock_guard lock(all.mutex);
  all.retired.push_back({std::move(parts), Clock::now() + kTime});
}

void Linger::end() {
  end_those([](const Retired&) { return true; });
}

void Linger::end_old() {
  const auto now = Clock::now();
  end_those([now](const Retired& retired) { return retired.until <= now; });
}

void Linger::finish() {
  wait(end_of_newest());
  end_old();
}

void Linger::at_exit() {
  static const int registered = std::atexit(&wait_for_those);
  (void)registered;
}

}  // namespace mrc_verbs
