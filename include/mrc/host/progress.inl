// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <string>
#include <system_error>
#include <vector>

#include "mrc/core/value_text.hpp"
#include "mrc/host/progress.hpp"

namespace mrc::inline v0_1::detail {

/// The helper's naps beside a polling application grow up to this, or to so many times
/// helper_takeover if that is longer. With 4 ms the ends of the naps of both sides meet one of 200
/// round trips of 8 bytes; with 2 ms they made the 99th percentile.
inline constexpr Duration kLongestNap = std::chrono::milliseconds(1);
inline constexpr int kLongestNapTakeovers = 8;
/// A thread that has waited for a completion for this long is expected to stay there.
inline constexpr Duration kParkAfter = std::chrono::milliseconds(100);

Progress::Progress(const LaneParts& parts, CourteousMutex& mutex, Rounds& rounds)
    : lane_(parts), mutex_(mutex), rounds_(rounds), ahead_(parts.config.expert.poll_ahead) {
  if (!lane_.config.helper) return;
  require({SystemCall::ppoll, SystemCall::read, SystemCall::write});
  wake_up_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_up_.open()) throw_errno("cannot open the helper thread's event descriptor");
}

// --- Threads of the application ---------------------------------------------------------------

bool Progress::poll() noexcept {
  const std::lock_guard lock(mutex_);
  return poll_locked();
}

bool Progress::try_poll() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) return poll_locked();
  note_use(monotonic_now());
  return true;
}

bool Progress::poll_locked() noexcept {
  const Time now = monotonic_now();
  const InUse at_work(*this, now);
  const bool moved = rounds_.advance_out_first(now);
  leave(now, false);
  return moved || rounds_.unfinished();
}

std::size_t Progress::poll_cq(CqId cq, std::span<Completion> out) noexcept {
  const std::lock_guard lock(mutex_);
  if (ahead_.enabled()) ahead_.program_came(lane_.engine.stats().rx_data, monotonic_now);
  std::size_t n = lane_.engine.poll_cq(cq, out);
  if (n > 0 && !rounds_.work_left() && !ahead_.enabled()) return n;
  const Time now = monotonic_now();
  const bool last = armed_;  // before it sleeps on the queue's descriptor
  InUse at_work(*this, now, !last);
  if (n == 0) {
    (void)rounds_.advance_out_first(now);
    n = lane_.engine.poll_cq(cq, out);
  }
  if (n == 0) armed_ = false;  // else it polls again before it sleeps
  const bool answer = n > 0 && !last && ahead_.enabled() && stay(at_work);
  leave(now, (n > 0 && !answer) || last);
  return n;
}

/// A poll has found completions: receives until data comes, if that is likely to be soon. True if
/// the program is likely to answer data at once, so that what is to be sent can wait for that.
bool Progress::stay(InUse& at_work) noexcept {
  const auto data = [this] { return lane_.engine.stats().rx_data; };
  const std::uint64_t before = data();
  Time now = monotonic_now();
  if (ahead_.should_stay(before)) {
    const Time until = now + ahead_.limit();
    do {
      (void)rounds_.advance_out_first(now);
      now = monotonic_now();
    } while (data() == before && now < until);
    ahead_.stayed(data() != before);
    at_work.saw(now);
  }
  const bool answer = ahead_.expects_answer(data());
  ahead_.program_leaves(data(), now);
  return answer;
}

/// A polling thread leaves. Flushes pending output if it has `work` to do now, since its next call
/// may be a while off, or if sleepers rely on it; wakes those whose deadline is now too late.
void Progress::leave(Time now, bool work) noexcept {
  if (rounds_.work_left() && (work || sleepers_ != nullptr)) (void)rounds_.send(now);
  if (sleepers_ != nullptr || helper_sleeps_until_.load(std::memory_order_acquire) != INT64_MIN)
    deadline_changed();
}

Errc Progress::arm_cq(CqId cq, Arm what) noexcept {
  const std::lock_guard lock(mutex_);
  armed_ = true;
  const Errc e = lane_.engine.arm_cq(cq, what);
  last_use_.store(INT64_MIN / 2, std::memory_order_relaxed);
  wake_helper();
  return e;
}

// --- Threads that wait for a completion --------------------------------------------------------

void Progress::end_wait() noexcept {
  {
    const std::lock_guard lock(mutex_);
    const Time now = monotonic_now();
    note_use(now);
    waiters_.fetch_sub(1);
    if (rounds_.work_left()) (void)rounds_.send(now);
    deadline_changed();  // hands this thread's deadlines to another waiter or the helper
  }
  if (helper_parked_.load()) wake_helper();
}

bool Progress::begin_sleep(CqId cq, std::span<Completion> out, std::size_t& n,
                           Sleeper& self) noexcept {
  const std::lock_guard lock(mutex_);
  (void)lane_.engine.arm_cq(cq);
  n = lane_.engine.poll_cq(cq, out);
  if (n > 0) return false;
  if (const Time now = monotonic_now(); rounds_.wants_to_send(now)) (void)rounds_.send(now);
  if (!rounds_.arm()) return false;
  self.until = std::min(self.until, rounds_.next_deadline());
  self.next = std::exchange(sleepers_, &self);
  return true;
}

void Progress::end_sleep(Sleeper& self) noexcept {
  const std::lock_guard lock(mutex_);
  Sleeper** at = &sleepers_;
  while (*at != &self) at = &(*at)->next;
  *at = self.next;
}

std::size_t Progress::watch(pollfd* fds) const noexcept {
  std::size_t n = 0;
  for (const auto& port : lane_.planes.ports)
    for (const int fd : {port->poll_fd(), port->link_fd()})
      if (fd >= 0) fds[n++] = {fd, POLLIN, 0};
  return n;
}

void Progress::sleep(std::span<pollfd> fds, Time until) noexcept {
  timespec limit{};
  if (until != kNever) {
    const Time now = monotonic_now();
    const std::int64_t left = until > now ? (until - now).count() : 0;
    limit = {left / 1'000'000'000, left % 1'000'000'000};
  }
  const Uncancelled sleeping;
  (void)ppoll(fds.data(), fds.size(), until == kNever ? nullptr : &limit, nullptr);
}

/// Makes sure that a thread is awake at a deadline: one that waits for a completion if there is
/// one, else the helper.
void Progress::wake_for(Time deadline) noexcept {
  for (const Sleeper* s = sleepers_; s != nullptr; s = s->next)
    if (s->until <= deadline) return;
  if (sleepers_ != nullptr) {
    const std::uint64_t one = 1;
    (void)uncancelled::write(sleepers_->fd, &one, sizeof one);
  } else if (deadline.time_since_epoch().count() <
             helper_sleeps_until_.load(std::memory_order_acquire)) {
    helper_sleeps_until_.store(INT64_MIN, std::memory_order_release);  // one wake-up is enough
    wake_helper();
  }
}

// --- The helper thread --------------------------------------------------------------------------

void Progress::start() {
  if (!lane_.config.helper) return;
  try {
    const BlockedSignals inherited;  // the program's handlers run in threads of the program
    helper_ = std::thread([this] { run_helper(); });
  } catch (const std::system_error& error) {
    throw_errno("cannot start the helper thread (system calls clone3 and clone)",
                error.code().value());
  }
  (void)pthread_setname_np(helper_.native_handle(),
                           ("openmrc-" + std::to_string(lane_.index)).c_str());
  if (lane_.config.helper_cpus.empty()) return;
  const std::vector<unsigned> cpus = *parse_cpu_list(lane_.config.helper_cpus);
  const unsigned cpu = cpus[lane_.index % cpus.size()];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (const int error = pthread_setaffinity_np(helper_.native_handle(), sizeof set, &set)) {
    stop();
    throw_errno("option helper_cpus: the helper cannot run on processor " + std::to_string(cpu) +
                    ", which this process must be allowed to use",
                error);
  }
}

void Progress::stop() noexcept {
  if (!helper_.joinable()) return;
  if (fork_.forked()) return leave_to_parent(std::move(helper_));
  stop_.store(true);
  wake_helper();
  helper_.join();
}

void Progress::wake_helper() noexcept {
  const std::uint64_t one = 1;
  if (wake_up_.open()) (void)uncancelled::write(wake_up_.fd(), &one, sizeof one);
}

bool Progress::in_use(Time now) const noexcept {
  return waiters_.load(std::memory_order_relaxed) > 0 || in_use_.load(std::memory_order_relaxed) ||
         now.time_since_epoch().count() - last_use_.load(std::memory_order_relaxed) <
             lane_.config.expert.helper_takeover.count();
}

/// How long the helper naps beside an application at work, which it has found polling `before`
/// times in a row: on a single processor the end of a nap costs the program some 20 us, which
/// showed in the 99th percentile of its latency. A thread that has waited for long watches the
/// ports, so the helper sleeps until it is woken.
Duration Progress::nap(Time now, unsigned before) noexcept {
  const Duration longest =
      std::max(kLongestNap, kLongestNapTakeovers * lane_.config.expert.helper_takeover);
  const Duration time =
      std::min(lane_.config.expert.helper_takeover * (1 << std::min(before, 10u)), longest);
  const auto idle = now.time_since_epoch().count() - last_use_.load(std::memory_order_relaxed);
  if (waiters_.load() == 0 || idle < kParkAfter.count()) return time;
  helper_parked_.store(true);
  return waiters_.load() > 0 ? Duration::max() : time;
}

/// `naps`: how many the helper has taken in a row.
void Progress::take_nap(unsigned& naps, Time now) noexcept {
  pollfd wake{wake_up_.fd(), POLLIN, 0};
  // Naps grow only while the application polls without a pause; a waiter resets them.
  if (waiters_.load(std::memory_order_relaxed) > 0) naps = 0;
  const Duration wait = nap(now, naps++);
  const timespec limit{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
  if (ppoll(&wake, 1, wait == Duration::max() ? nullptr : &limit, nullptr) > 0) naps = 0;
  helper_parked_.store(false);
}

/// While the application polls or waits the helper only checks now and then that it still does;
/// otherwise it makes the rounds and sleeps until a port has something or a timer is due.
void Progress::run_helper() noexcept {
  unsigned naps = 0;
  while (!stop_.load()) {
    Time now = monotonic_now();
    mutex_.let_others_in();
    if (in_use(now)) {
      take_nap(naps, now);
    } else {
      naps = 0;
      Time until = kNever;
      {
        const std::lock_guard lock(mutex_);
        now = monotonic_now();
        const bool moved = rounds_.advance(now);
        helper_rounds_.fetch_add(1, std::memory_order_relaxed);
        if (moved || rounds_.work_left() || !rounds_.arm()) continue;
        until = rounds_.next_deadline();
        helper_sleeps_until_.store(until.time_since_epoch().count(), std::memory_order_release);
      }
      std::array<pollfd, kMaxFds + 1> fds;
      std::size_t n = watch(fds.data());
      fds[n++] = {wake_up_.fd(), POLLIN, 0};
      sleep({fds.data(), n}, until);
    }
    helper_sleeps_until_.store(INT64_MIN, std::memory_order_release);
    std::uint64_t count = 0;
    (void)uncancelled::read(wake_up_.fd(), &count, sizeof count);
  }
}

}  // namespace mrc::inline v0_1::detail
