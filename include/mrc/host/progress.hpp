// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/host/rounds.hpp"
#include "mrc/plane/plane.hpp"

namespace mrc::inline v0_1::detail {

/// A mutex that a thread can lock in a loop, and let others in between. Any thread.
class CourteousMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  /// Call without holding the lock: returns once no thread waits for it.
  void let_others_in() const noexcept {
    while (waiting_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

/// Decides whether a poll that found completions should stay and receive before it returns.
///
/// While a program waits by watching memory (ib_write_lat), only the helper can receive, after
/// helper_takeover, and often on the processor of the thread that watches. So polls stay, up to
/// `limit`, while that paid off lately: data soon after the program had left counts for it, a stay
/// in vain four times against. Under the lane's lock. `data`: data packets received so far.
class PollAhead {
 public:
  /// 0: polls never stay.
  explicit PollAhead(Duration limit) noexcept : limit_(limit) {}

  [[nodiscard]] bool enabled() const noexcept { return limit_ > Duration{0}; }

  /// The program polls. `now` is called only if it matters.
  template <class Now>
  void program_came(std::uint64_t data, Now&& now) noexcept {
    if (!std::exchange(away_, false)) return;
    const bool expected = std::exchange(answer_expected_, false);
    if (data == seen_ && !expected) return;
    const Duration away = now() - left_;
    if (expected && away > limit_)
      count_against();
    else if (data != seen_ && away < limit_ * kAway)
      count_for();
  }
  /// A poll has completions for the program: whether it should stay. Not if the program has yet to
  /// see what came since its last poll.
  [[nodiscard]] bool should_stay(std::uint64_t data) const noexcept {
    return paid_off_ >= kEnough && data == seen_;
  }
  /// A poll has completions, and data that the program has yet to see: whether the program is
  /// likely to answer at once, so that what is to be sent can wait for that.
  [[nodiscard]] bool expects_answer(std::uint64_t data) const noexcept {
    return paid_off_ >= kEnough && data != seen_;
  }
  [[nodiscard]] Duration limit() const noexcept { return limit_; }
  void stayed(bool came) noexcept {
    if (came)
      count_for();
    else
      count_against();
  }
  void program_leaves(std::uint64_t data, Time now) noexcept {
    away_ = true;
    answer_expected_ = expects_answer(data);
    seen_ = data;
    left_ = now;
  }

 private:
  static constexpr unsigned kEnough = 3, kMost = 12, kInVain = 4;
  /// A program away for longer, in limits, would have gained nothing worth mentioning.
  static constexpr int kAway = 50;

  void count_for() noexcept { paid_off_ = std::min(paid_off_ + 1, kMost); }
  void count_against() noexcept { paid_off_ -= std::min(paid_off_, kInVain); }

  const Duration limit_;
  unsigned paid_off_ = 0;
  std::uint64_t seen_ = 0;        ///< data packets when the program left
  Time left_{};                   ///< when that was
  bool away_ = false;             ///< the program has not polled since
  bool answer_expected_ = false;  ///< of the program, as it left
};

/// Decides which thread makes the rounds of a lane: one that polls, or waits for a completion
/// (Lanes::wait_cq()). While there is neither, the helper does; else it neither watches the sockets
/// nor takes the lock. Any thread, without the lock, except deadline_changed().
class Progress {
 public:
  /// Throws mrc::Error.
  Progress(const LaneParts& parts, CourteousMutex& mutex, Rounds& rounds);
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Starts the helper thread, if option helper wants it, on the processor that option helper_cpus
  /// gives. Throws mrc::Error.
  void start();
  void stop() noexcept;

  /// One round by a thread that polls. True if anything moved or is still to go out.
  bool poll() noexcept;
  /// The same, unless another thread is at it: true then, since something may move.
  bool try_poll() noexcept;
  /// Completions; a round is made if there are none yet. May stay for a moment to receive data that
  /// the program will watch memory for: PollAhead.
  std::size_t poll_cq(CqId cq, std::span<Completion> out) noexcept;
  /// Arms a queue. The caller is about to sleep on its descriptor: the helper takes over at once.
  Errc arm_cq(CqId cq, Arm what) noexcept;

  // A thread that waits for a completion polls, then sleeps and watches the ports itself.
  /// A thread asleep: entry of a list, on the stack of that thread.
  struct Sleeper {
    int fd;      ///< eventfd that ends its sleep
    Time until;  ///< when it wakes by itself
    Sleeper* next;
  };
  /// The thread will wait: the helper leaves progress to it.
  void begin_wait() noexcept { waiters_.fetch_add(1); }
  void end_wait() noexcept;
  /// Before it sleeps: arms the queue and the ports, lists the thread among those that a nearer
  /// deadline wakes, and lowers `self.until` to the present one. False, and not listed, if there is
  /// something to do, or completions were taken: `n`.
  bool begin_sleep(CqId cq, std::span<Completion> out, std::size_t& n, Sleeper& self) noexcept;
  void end_sleep(Sleeper& self) noexcept;
  static constexpr std::size_t kMaxFds = 2 * kMaxPlanes;
  /// Writes to `fds` what such a thread has to watch. Returns how many entries, up to kMaxFds.
  std::size_t watch(pollfd* fds) const noexcept;
  /// Sleeps until a descriptor is readable, or until a time.
  static void sleep(std::span<pollfd> fds, Time until) noexcept;

  /// Under the lock, after anything that may have moved Rounds::next_deadline() forward: wakes a
  /// sleeper whose own deadline is now too late.
  void deadline_changed() noexcept { wake_for(rounds_.next_deadline()); }

  [[nodiscard]] std::uint64_t helper_rounds() const noexcept {
    return helper_rounds_.load(std::memory_order_relaxed);
  }

 private:
  bool poll_locked() noexcept;
  void leave(Time now, bool work) noexcept;
  void wake_for(Time deadline) noexcept;

  void note_use(Time now) noexcept {
    last_use_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// A polling thread is at work since `now`, if `counts`: with large bursts for longer than
  /// helper_takeover, in which the helper shall not queue up for the lock. The clock is read again
  /// at the end only if that can matter.
  class InUse {
   public:
    InUse(Progress& of, Time now, bool counts = true) noexcept
        : of_(counts ? &of : nullptr), seen_(now), moved_(of.rounds_.moved()) {
      if (of_ != nullptr) of_->in_use_.store(true, std::memory_order_relaxed);
    }
    ~InUse() {
      if (of_ == nullptr) return;
      of_->note_use(of_->rounds_.moved() - moved_ > kFew ? monotonic_now() : seen_);
      of_->in_use_.store(false, std::memory_order_relaxed);
    }
    void saw(Time now) noexcept { seen_ = now; }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    static constexpr std::uint64_t kFew = 4;  ///< packets that take no time worth mentioning

    Progress* of_;
    Time seen_;
    std::uint64_t moved_;
  };
  bool stay(InUse& at_work) noexcept;
  [[nodiscard]] bool in_use(Time now) const noexcept;
  [[nodiscard]] Duration nap(Time now, unsigned before) noexcept;
  void take_nap(unsigned& naps, Time now) noexcept;
  void wake_helper() noexcept;
  void run_helper() noexcept;

  const LaneParts lane_;
  CourteousMutex& mutex_;
  Rounds& rounds_;

  // Under the lock.
  Sleeper* sleepers_ = nullptr;
  bool armed_ = false;  ///< a queue was armed, and none found empty since
  PollAhead ahead_;

  UniqueFd wake_up_;                                   ///< eventfd that ends the helper's sleep
  std::atomic<std::int64_t> last_use_{INT64_MIN / 2};  ///< when the application polled last, ns
  std::atomic<bool> in_use_{false};                    ///< a polling thread is at work: InUse
  std::atomic<int> waiters_{0};  ///< application threads that wait for a completion
  std::atomic<std::int64_t> helper_sleeps_until_{0};  ///< ns; INT64_MIN: it is awake or napping
  std::atomic<std::uint64_t> helper_rounds_{0};
  std::atomic<bool> helper_parked_{false};  ///< it sleeps until woken: a waiter watches the ports
  std::atomic<bool> stop_{false};
  const ForkMark fork_;
  std::thread helper_;
};

}  // namespace mrc::inline v0_1::detail
