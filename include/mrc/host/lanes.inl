// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "mrc/host/lanes.hpp"
#include "mrc/host/open_files.hpp"

namespace mrc::inline v0_1::detail {

/// Why no further lane is opened, if `open` files are and each lane opens `each`. Empty: there are
/// enough.
[[nodiscard]] std::string too_few_files(std::size_t open, std::size_t each) {
  if (may_open(open, each)) return {};
  return "a lane opens " + std::to_string(each) + " files and the limit is " +
         std::to_string(allowed_files()) + "; raise it with `ulimit -n`, or set fewer paths";
}

Lanes::Lanes(const LaneSurroundings& around)
    : config_(around.config), cq_events_(around.cq_events) {
  const unsigned wanted = wanted_lanes(config_);
  std::optional<std::uint8_t> slot;
  if (config_.slot >= 0) slot = static_cast<std::uint8_t>(config_.slot);
  const std::size_t before = wanted > 1 ? open_files() : 0;
  lanes_.push_back(std::make_unique<Lane>(around, 0, slot));
  if (wanted == 1) return;
  std::size_t open = open_files();
  const std::size_t each = std::max(open, before) - before;
  std::string why;
  for (; why.empty() && count() < wanted; open += each) why = open_next(around, open, each);
  if (!why.empty())
    around.log.warn(std::to_string(count()) + (count() == 1 ? " lane" : " lanes") + " instead of " +
                    std::to_string(wanted) + ": " + why);
  if (count() > 1) serving_ = std::vector<Serving>(config_.max_cqs);
}

/// Opens another lane, under the slot after that of the last if option slot is set. Returns why it
/// can't.
std::string Lanes::open_next(const LaneSurroundings& around, std::size_t open, std::size_t each) {
  if (std::string why = too_few_files(open, each); !why.empty()) return why;
  std::optional<std::uint8_t> slot;
  if (config_.slot >= 0) {
    if (lanes_.back()->slot() == std::numeric_limits<std::uint8_t>::max())
      return "option slot leaves no higher slot";
    slot = static_cast<std::uint8_t>(lanes_.back()->slot() + 1);
  }
  try {
    lanes_.push_back(std::make_unique<Lane>(around, count(), slot));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

Lanes::~Lanes() {
  for (const auto& lane : lanes_) lane->stop();
}

void Lanes::start() {
  for (const auto& lane : lanes_) lane->start();
}

Lane& Lanes::emptiest() noexcept {
  const auto load = [](Lane& lane) {
    return std::pair(lane.with_engine([](engine::Engine& engine, Time) {
      return engine.qp_count() + engine.datagram_qp_count();
    }),
                     lane.srqs());
  };
  Lane* best = lanes_[0].get();
  if (count() == 1) return *best;
  auto fewest = load(*best);
  for (const auto& lane : lanes_) {
    const auto n = load(*lane);
    if (n >= fewest) continue;
    fewest = n;
    best = lane.get();
  }
  return *best;
}

void Lanes::serve(CqId cq, Lane& lane) noexcept {
  if (count() == 1) return;
  const Mask bit = Mask{1} << lane.index();
  if ((serving_[index(cq)].mask.fetch_or(bit) & bit) != 0) return;
  // The queue may be armed, or slept on, in the other lanes. Arming publishes, then reads the mask;
  // this publishes the mask, then checks arming.
  const Arm armed = cq_events_.armed(cq);
  if (armed != Arm::none) (void)lane.progress().arm_cq(cq, armed);
  cq_events_.wake(cq);
}

void Lanes::reset(CqId cq) noexcept {
  if (count() > 1) serving_[index(cq)].mask.store(0);
}

Lanes::Mask Lanes::serving(CqId cq) const noexcept {
  if (count() == 1) return 1;
  const Mask mask = serving_[index(cq)].mask.load();
  return mask != 0 ? mask : 1;
}

/// Calls f(Lane&) for the lanes of a mask.
template <class F>
void Lanes::for_each(Mask mask, F&& f) const {
  for (; mask != 0; mask &= mask - 1) f(*lanes_[static_cast<unsigned>(std::countr_zero(mask))]);
}

bool Lanes::poll() noexcept {
  if (count() == 1) return lanes_[0]->progress().poll();
  bool moved = false;
  for (const auto& lane : lanes_) moved = lane->progress().try_poll() || moved;
  return moved;
}

std::size_t Lanes::poll_cq(CqId cq, std::span<Completion> out) noexcept {
  if (count() == 1) return lanes_[0]->progress().poll_cq(cq, out);
  // Ends at the first lane that has completions, with which the next poll does not begin: none can
  // keep the others from making progress.
  const Mask all = serving(cq);
  std::atomic<unsigned>& turn = serving_[index(cq)].turn;
  const Mask from_turn = ~Mask{0} << turn.load(std::memory_order_relaxed);
  for (Mask mask : {all & from_turn, all & ~from_turn})
    for (; mask != 0; mask &= mask - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(mask));
      const std::size_t n = lanes_[lane]->progress().poll_cq(cq, out);
      if (n == 0) continue;
      turn.store((lane + 1) % kMaxLanes, std::memory_order_relaxed);
      return n;
    }
  return 0;
}

std::size_t Lanes::wait_cq(CqId cq, std::span<Completion> out, Duration timeout) noexcept {
  const Time start = monotonic_now();
  const Time end = timeout >= kNever - start ? kNever : start + timeout;
  Mask waiting = 0;  // lanes whose helpers leave progress to this thread
  std::size_t n = 0;
  for (;;) {
    const Mask mask = serving(cq);
    for_each(mask & ~waiting, [](Lane& lane) { lane.progress().begin_wait(); });
    waiting |= mask;
    n = poll_cq(cq, out);
    const Time now = monotonic_now();
    if (n > 0 || now >= end) break;
    if (now - start < config_.expert.spin) continue;
    n = sleep(cq, waiting, out, end);
    if ((serving(cq) & ~waiting) != 0) cq_events_.wake(cq);  // others that sleep must know, too
    if (n > 0) break;
  }
  for_each(waiting, [](Lane& lane) { lane.progress().end_wait(); });
  return n;
}

/// Sleeps until one of these lanes has something to do, or another one serves the queue.
std::size_t Lanes::sleep(CqId cq, Mask mask, std::span<Completion> out, Time until) noexcept {
  constexpr Duration kUnwoken = std::chrono::milliseconds(1);
  std::array<Progress::Sleeper, kMaxLanes> sleepers;
  std::array<pollfd, kMaxLanes * Progress::kMaxFds + 1> fds;
  const int fd = cq_events_.begin_sleep(cq);
  if (fd < 0) until = std::min(until, monotonic_now() + kUnwoken);
  bool quiet = (serving(cq) & ~mask) == 0;
  std::size_t n = 0, watched = 0;
  Mask asleep = 0;
  Time wake = until;
  for_each(mask, [&](Lane& lane) {
    Progress::Sleeper& self = sleepers[lane.index()];
    self = {fd, until, nullptr};
    quiet = quiet && lane.progress().begin_sleep(cq, out, n, self);
    if (!quiet) return;
    asleep |= Mask{1} << lane.index();
    wake = std::min(wake, self.until);
    watched += lane.progress().watch(&fds[watched]);
  });
  if (quiet) {
    fds[watched++] = {fd, POLLIN, 0};
    Progress::sleep({fds.data(), watched}, wake);
  }
  for_each(asleep, [&](Lane& lane) { lane.progress().end_sleep(sleepers[lane.index()]); });
  cq_events_.end_sleep(cq);
  return n;
}

Errc Lanes::arm_cq(CqId cq, Arm what) noexcept {
  cq_events_.arm(cq, what);
  Errc e = Errc::ok;
  for_each(serving(cq), [&](Lane& lane) {
    const Errc of_lane = lane.progress().arm_cq(cq, what);
    if (of_lane != Errc::ok) e = of_lane;
  });
  return e;
}

}  // namespace mrc::inline v0_1::detail
