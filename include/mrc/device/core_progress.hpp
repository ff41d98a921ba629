// SPDX-License-Identifier: Apache-2.0
// DeviceCore: rounds of progress, and who makes them.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "mrc/device/core.hpp"

namespace mrc::inline v0_1::detail {

/// Bursts that one round sends at most before it looks at what has come in.
inline constexpr unsigned kBurstsPerRound = 4;
/// A port that was busy is tried again after this long.
inline constexpr Duration kBusyRetry = std::chrono::microseconds(50);
/// The helper's naps beside a polling application grow up to helper_takeover times 2^this.
inline constexpr unsigned kLongestNap = 2;
/// A waiting application that has not stirred for this long is trusted to go on waiting.
inline constexpr Duration kParkAfter = std::chrono::milliseconds(100);

template <class F>
auto DeviceCore::with_doorbell(F&& f) noexcept {
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  const bool idle = engine_->quiet();
  const auto result = f(*engine_, now);
  if (idle) {
    // Nothing is under way that would bring the next round soon, so this one is made here.
    // Otherwise what is posted goes out with others, in larger bursts.
    work_left_ = transmit(now);
  } else {
    work_left_ = true;
  }
  hand_out_events();
  wake_for(next_deadline());
  return result;
}

inline bool DeviceCore::poll() noexcept {
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  note_use(now);
  const bool moved = advance_out_first(now);
  leave(now, false);
  return moved || work_left_ || retry_ != kNever;
}

inline std::size_t DeviceCore::poll_cq(CqId cq, std::span<Completion> out) noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t n = engine_->poll_cq(cq, out);
  if (n > 0 && !work_left_) return n;
  const Time now = monotonic_now();
  const bool last = std::exchange(armed_, false);  // before it sleeps on the queue's descriptor
  if (!last) note_use(now);
  if (n == 0) {
    (void)advance_out_first(now);
    n = engine_->poll_cq(cq, out);
  }
  leave(now, n > 0 || last);
  return n;
}

/// One round: what has come in, timers, what is to go out, events.
inline bool DeviceCore::advance(Time now) noexcept {
  const bool moved = take_in(now);
  return send(now) || moved;
}

/// A round by a thread that polls and will be back soon: what it has posted goes out first, and
/// answers to what comes in wait for its next call. So a program that polls memory sees its
/// message, and has its reply under way, two system calls earlier.
inline bool DeviceCore::advance_out_first(Time now) noexcept {
  const bool moved = wants_to_send(now) && send(now);
  const bool came = take_in(now);
  work_left_ = work_left_ || engine_->has_output();
  return moved || came;
}

/// A polling thread leaves. What it has not sent, it sends now if it has `work` to do, for it may
/// be a while until its next call, or if others sleep who think that it watches. Whoever sleeps
/// until a deadline, be it the helper, is told of an earlier one, in case it does not come back.
inline void DeviceCore::leave(Time now, bool work) noexcept {
  if (work_left_ && (work || sleepers_ != nullptr)) (void)send(now);
  if (sleepers_ != nullptr || helper_sleeps_until_.load(std::memory_order_acquire) != INT64_MIN)
    wake_for(next_deadline());
}

/// What has come in, timers, events. True if there were packets.
inline bool DeviceCore::take_in(Time now) noexcept {
  if (now >= fault_change_) apply_faults(now);
  const bool moved = receive(now);
  for (unsigned i = 0; i < ports_.size(); ++i) {  // of which the ports have just heard
    const bool up = usable(i);
    if (up == ((planes_up_ >> i & 1) != 0)) continue;
    planes_up_ ^= plane_bit(static_cast<Plane>(i));
    engine_->set_plane_up(now, static_cast<Plane>(i), up);
  }
  engine_->review_losses(now);  // now that all is read; later, `now` would say more than it knows
  if (engine_->next_deadline() <= now) engine_->on_time(now);
  hand_out_events();
  return moved;
}

/// A plane's link is up, and carries the packets of this device: an interface that came, or was
/// changed, after the device had opened may not.
inline bool DeviceCore::usable(unsigned plane) noexcept {
  if (!ports_[plane]->link_up()) return false;
  const std::uint32_t room = ports_[plane]->capabilities().max_packet;
  const PlaneMask bit = plane_bit(static_cast<Plane>(plane));
  if (mtu_ + kPacketOverhead <= room) {
    too_small_ &= ~bit;
    return true;
  }
  if ((too_small_ & bit) == 0)
    log(LogLevel::warn, "plane " + std::to_string(plane) + ": the interface's MTU leaves " +
                            std::to_string(room) + " bytes for a packet, needed are " +
                            std::to_string(mtu_ + kPacketOverhead) +
                            "; the plane is down until it is raised with `ip link set`");
  too_small_ |= bit;
  return false;
}

/// What is to go out. True if there was something.
inline bool DeviceCore::send(Time now) noexcept {
  const auto sent = [this] {
    const EngineStats& s = engine_->stats();
    return s.tx_data + s.tx_retransmits + s.tx_control;
  };
  const std::uint64_t before = sent();
  work_left_ = transmit(now);
  hand_out_events();
  return sent() != before;
}

inline bool DeviceCore::receive(Time now) noexcept {
  bool any = false;
  for (auto& port : ports_) {
    rx_.clear();
    port->receive(now, rx_);
    if (rx_.empty()) continue;
    any = true;
    engine_->receive(now, rx_.packets());
    if (fabric_) answer_unconnected_probes(now, *port);
  }
  return any;
}

/// True if there is more to send than one round sends.
inline bool DeviceCore::transmit(Time now) noexcept {
  if (now >= retry_) {
    busy_ = 0;
    retry_ = kNever;
  }
  for (unsigned n = 0; n < kBurstsPerRound; ++n) {
    tx_.clear();
    engine_->poll_transmit(now, ~busy_, tx_);
    if (tx_.empty()) return false;
    // A system call per group or plane: a program waits for its few packets of data, so they go
    // before the control packets that the engine puts in front. Where there are many, sockets may
    // be full, and control packets that are refused are lost.
    const auto late = [&](const wire::TxGroup& group) {
      return tx_.size() <= few_packets_ && tx_.packets(group).front().dscp == config_.dscp_control;
    };
    for (auto& groups : by_plane_) groups.clear();
    for (const bool pass : {false, true})
      for (const wire::TxGroup& group : tx_.groups())
        if (late(group) == pass) by_plane_[group.plane].push_back(group);
    for (std::size_t plane = 0; plane < by_plane_.size(); ++plane)
      if (!by_plane_[plane].empty()) transmit(now, static_cast<Plane>(plane), by_plane_[plane]);
  }
  return true;
}

inline void DeviceCore::transmit(Time now, Plane plane,
                                 std::span<const wire::TxGroup> groups) noexcept {
  std::uint32_t taken = ports_[plane]->transmit(now, tx_, groups);
  for (const wire::TxGroup& group : groups) {
    const std::uint32_t sent = std::min(taken, group.count);
    taken -= sent;
    if (sent == group.count) continue;
    engine_->on_untransmitted(now, tx_.packets(group).subspan(sent));
    busy_ |= plane_bit(plane);
    retry_ = now + kBusyRetry;
  }
}

/// Completion queues that were armed tell their event descriptors.
inline void DeviceCore::hand_out_events() noexcept {
  using Kind = engine::Engine::Event::Kind;
  engine::Engine::Event event;
  while (engine_->poll_event(event)) {
    if (event.kind == Kind::qp_error) continue;  // its completions say so
    const std::uint64_t one = 1;
    const int fd = cq_fds_[static_cast<std::uint32_t>(event.cq)];
    if (fd >= 0) (void)!::write(fd, &one, sizeof one);
  }
}

inline void DeviceCore::apply_faults(Time now) noexcept {
  const Duration t = now - faults_start_;
  for (unsigned i = 0; i < ports_.size(); ++i) {
    DevicePort& port = *ports_[i];
    port.clear_faults();
    port.set_fault(faults_.port_fault(t, static_cast<Plane>(i)));
    for (const port::PortPath& path : port.paths()) {
      const port::FaultSpec spec = faults_.path_fault(t, static_cast<Plane>(i), path.port_path);
      if (spec.any()) port.set_path_fault(path.port_path, spec);
    }
  }
  const Duration next = faults_.next_change(t);
  fault_change_ = next == Duration::max() ? kNever : faults_start_ + next;
}

inline Time DeviceCore::next_deadline() const noexcept {
  Time next = std::min({engine_->next_deadline(), fault_change_, retry_});
  for (const auto& port : ports_) next = std::min(next, port->next_release());
  return work_left_ ? Time::min() : next;
}

/// Waits until a port or `fd` has something, or until a time. Not under the lock.
inline void DeviceCore::sleep(int fd, Time until) noexcept {
  std::array<pollfd, 2 * kMaxPlanes + 1> fds;
  nfds_t n = 0;
  const auto watch = [&](int what) {
    if (what >= 0) fds[n++] = {what, POLLIN, 0};
  };
  for (const auto& port : ports_) {
    watch(port->poll_fd());
    watch(port->link_fd());
  }
  watch(fd);
  timespec limit{};
  if (until != kNever) {
    const Time now = monotonic_now();
    const std::int64_t left = until > now ? (until - now).count() : 0;
    limit = {left / 1'000'000'000, left % 1'000'000'000};
  }
  (void)ppoll(fds.data(), n, until == kNever ? nullptr : &limit, nullptr);
}

/// Sleeps in the list of those who can be woken for a new deadline. `lock` is open meanwhile.
inline void DeviceCore::sleep_in_list(int fd, Time until,
                                      std::unique_lock<CourteousMutex>& lock) noexcept {
  Sleeper self{fd, until, sleepers_};
  sleepers_ = &self;
  lock.unlock();
  sleep(fd, until);
  lock.lock();
  Sleeper** at = &sleepers_;
  while (*at != &self) at = &(*at)->next;
  *at = self.next;
}

/// Polls, then sleeps; while it sleeps it watches the ports itself, so no other thread is needed to
/// make progress.
inline std::size_t DeviceCore::wait_cq(CqId cq, int fd, std::span<Completion> out,
                                       Duration timeout) noexcept {
  const Time start = monotonic_now();
  const Time end = timeout >= kNever - start ? kNever : start + timeout;
  waiters_.fetch_add(1);
  std::size_t n = 0;
  for (;;) {
    n = poll_cq(cq, out);
    const Time now = monotonic_now();
    if (n > 0 || now >= end) break;
    if (now - start < config_.spin) continue;
    std::unique_lock lock(mutex_);
    (void)engine_->arm_cq(cq);
    n = engine_->poll_cq(cq, out);
    if (n > 0) break;
    if (const Time late = monotonic_now(); wants_to_send(late)) (void)send(late);
    sleep_in_list(fd, std::min(end, next_deadline()), lock);
    std::uint64_t count = 0;
    (void)!::read(fd, &count, sizeof count);
  }
  {
    const std::lock_guard lock(mutex_);
    const Time now = monotonic_now();
    note_use(now);
    waiters_.fetch_sub(1);
    if (work_left_) (void)send(now);
    wake_for(next_deadline());  // somebody else has to see to the deadlines that this thread knew
  }
  if (helper_parked_.load()) wake_helper();
  return n;
}

/// The caller is about to sleep on the queue's descriptor: the helper takes over at once.
inline Errc DeviceCore::arm_cq(CqId cq) noexcept {
  const std::lock_guard lock(mutex_);
  armed_ = true;
  const Errc e = engine_->arm_cq(cq);
  last_use_.store(INT64_MIN / 2, std::memory_order_relaxed);
  wake_helper();
  return e;
}

inline bool DeviceCore::in_use(Time now) const noexcept {
  return waiters_.load(std::memory_order_relaxed) > 0 ||
         now.time_since_epoch().count() - last_use_.load(std::memory_order_relaxed) <
             config_.helper_takeover.count();
}

inline void DeviceCore::wake_helper() noexcept {
  const std::uint64_t one = 1;
  if (wake_up_.open()) (void)!::write(wake_up_.fd(), &one, sizeof one);
}

/// Somebody has to be awake at a deadline. A thread that sleeps in wait_cq() sees to it while there
/// is one, else the helper.
inline void DeviceCore::wake_for(Time deadline) noexcept {
  for (const Sleeper* s = sleepers_; s != nullptr; s = s->next)
    if (s->until <= deadline) return;
  if (sleepers_ != nullptr) {
    const std::uint64_t one = 1;
    (void)!::write(sleepers_->fd, &one, sizeof one);
  } else if (deadline.time_since_epoch().count() <
             helper_sleeps_until_.load(std::memory_order_acquire)) {
    helper_sleeps_until_.store(INT64_MIN, std::memory_order_release);  // one wake-up is enough
    wake_helper();
  }
}

/// How long the helper sleeps while the application makes the progress: until it is time to look
/// whether it still does. A program that was found polling `before` times in a row is trusted with
/// longer naps: where it has no second processor each one's end costs it some 20 us, and these made
/// the 99th percentile of its latency. When a thread has been asleep in wait_cq() for long, that
/// thread watches the ports, so the helper sleeps until it is called.
inline Duration DeviceCore::nap(Time now, unsigned before) noexcept {
  const Duration time = config_.helper_takeover * (1 << std::min(before, kLongestNap));
  const auto idle = now.time_since_epoch().count() - last_use_.load(std::memory_order_relaxed);
  if (waiters_.load() == 0 || idle < kParkAfter.count()) return time;
  helper_parked_.store(true);
  return waiters_.load() > 0 ? Duration::max() : time;
}

/// The helper thread. While the application polls or waits it only looks in now and then; otherwise
/// it makes the rounds and sleeps until a port has something or a timer is due. An idle device
/// without deadlines does not wake it at all.
inline void DeviceCore::run_helper() noexcept {
  unsigned naps = 0;
  while (!stop_.load()) {
    Time now = monotonic_now();
    Time until = kNever;
    bool watch_ports = false;
    mutex_.let_others_in();
    if (!in_use(now)) {
      naps = 0;
      const std::lock_guard lock(mutex_);
      now = monotonic_now();
      const bool moved = advance(now);
      helper_rounds_.fetch_add(1, std::memory_order_relaxed);
      if (moved || work_left_) continue;
      until = next_deadline();
      watch_ports = true;
      helper_sleeps_until_.store(until.time_since_epoch().count(), std::memory_order_release);
    }
    if (watch_ports) {
      sleep(wake_up_.fd(), until);
    } else {
      pollfd wake{wake_up_.fd(), POLLIN, 0};
      // Only polling earns longer ones, and only without a pause.
      if (waiters_.load(std::memory_order_relaxed) > 0) naps = 0;
      const Duration wait = nap(now, naps++);
      const timespec limit{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
      if (ppoll(&wake, 1, wait == Duration::max() ? nullptr : &limit, nullptr) > 0) naps = 0;
      helper_parked_.store(false);
    }
    helper_sleeps_until_.store(INT64_MIN, std::memory_order_release);
    std::uint64_t count = 0;
    (void)!::read(wake_up_.fd(), &count, sizeof count);
  }
}

}  // namespace mrc::inline v0_1::detail
