// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>

#include "mrc/api/device_config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/host/courteous_mutex.hpp"
#include "mrc/host/poll_ahead.hpp"
#include "mrc/host/rounds.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// Decides which thread makes the rounds of a lane, and puts threads to sleep.
///
/// The application's polling thread makes them, or a thread that waits for a completion
/// (Lanes::wait_cq()). While there is neither, the helper thread takes over. Otherwise the helper
/// stays away: it neither watches the sockets nor takes the lock, so a polling application never
/// meets it.
///
/// Thread contract: any thread, without the lock, except deadline_changed(). The lock is that of
/// the engine and the rounds. What the constructor takes must outlive it.
class Progress {
 public:
  /// Throws mrc::Error.
  Progress(const Config& config, CourteousMutex& mutex, const OpenedPlanes& planes,
           engine::Engine& engine, Rounds& rounds);
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Starts the helper thread of lane `lane`, if option helper wants it, on the processor that
  /// option helper_cpus gives. Throws mrc::Error.
  void start(unsigned lane);
  /// Ends it. In a forked child there is none.
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

  // A thread that waits for a completion polls, and then sleeps watching the ports itself, so that
  // no other is needed to make progress.

  /// A thread asleep: entry of a list, on the stack of that thread.
  struct Sleeper {
    int fd;      ///< eventfd that ends its sleep
    Time until;  ///< when it wakes by itself
    Sleeper* next;
  };
  /// The thread will wait: the helper leaves progress to it.
  void begin_wait() noexcept { waiters_.fetch_add(1); }
  void end_wait() noexcept;
  /// Before it sleeps: arms the queue and the ports, and lists the thread among those that a nearer
  /// deadline wakes; lowers `self.until` to the present one. False, and not listed, if there is
  /// something to do, or completions were taken: `n`.
  bool begin_sleep(CqId cq, std::span<Completion> out, std::size_t& n, Sleeper& self) noexcept;
  void end_sleep(Sleeper& self) noexcept;
  /// Entries of `fds` that watch() needs at most.
  static constexpr std::size_t kMaxFds = 2 * kMaxPlanes;
  /// Writes to `fds` what such a thread has to watch. Returns how many entries.
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
  /// A polling thread is at work since `now`, if `counts`. With large bursts that can take longer
  /// than helper_takeover: the helper shall not queue up for the lock meanwhile. The clock is read
  /// again at the end only if that can matter.
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
    /// It is later now.
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

  const Config& config_;
  CourteousMutex& mutex_;
  const OpenedPlanes& planes_;
  engine::Engine& engine_;
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
