// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/host/device_core.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <utility>

#include "mrc/core/random.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::detail {

/// Throws mrc::Error if there is none.
[[nodiscard]] PlaneKind& checked(PlaneKind* kind) {
  if (kind == nullptr) throw Error(Errc::invalid_argument, "a device needs a kind of planes");
  return *kind;
}

/// Throws mrc::Error if the process could not use this memory as the region's rights allow.
void check_registrable(const void* address, std::size_t length, Access access) {
  const MappingCheck check =
      check_mapping(address, length, has(in_force(access), Access::local_write));
  if (check.fault == MappingFault::none) return;
  char place[24];
  std::snprintf(place, sizeof place, "0x%" PRIxPTR, check.address);
  const std::string at = place;
  std::string why;
  switch (check.fault) {
    case MappingFault::none:
      return;
    case MappingFault::unmapped:
      why = "not all of it is mapped; at " + at + " nothing is";
      break;
    case MappingFault::unreadable:
      why = "what is mapped at " + at + " can't be read; map it with PROT_READ";
      break;
    case MappingFault::unwritable:
      why = "what is mapped at " + at +
            " is read-only, and the rights asked for let it be written to (local_write, "
            "remote_write, remote_atomic); leave them out, or map it with PROT_WRITE";
      break;
    case MappingFault::past_file:
      why =
          "the file that is mapped there ends before " + at + "; make it longer, or register less";
      break;
  }
  throw Error(Errc::invalid_argument,
              "registering " + std::to_string(length) + " bytes of memory: " + why);
}

/// Null: the program has none.
[[nodiscard]] std::unique_ptr<Administration> make_administration_of(DeviceCore& core) {
  const auto make = administration_maker.load();
  return make == nullptr ? nullptr : make(core);
}

/// Events that wait to be taken, most.
inline constexpr std::size_t kEvents = 4096;

DeviceCore::DeviceCore(const Config& config)
    : DeviceCore(config, (config.validate(), make_plane_kind(config))) {}

DeviceCore::DeviceCore(const Config& config, std::unique_ptr<PlaneKind> kind)
    : config_(checked(kind.get()).in_force((config.validate(), config))),
      kind_(std::move(kind)),
      log_(config_.log, config_.log_sink),
      guid_(random_seed()),
      cq_events_(config_.max_cqs),
      events_(kEvents),
      administration_(make_administration_of(*this)),
      lanes_({config_, log_, guid_, *kind_, cq_events_, events_, administration_.get(),
              singly_logged_}),
      default_pd_(alloc_pd()) {
  pds_ = 0;  // the application did not ask for the default one
  if (!config_.faults.empty()) {
    const std::string setting = setting_name("faults", config_);
    const auto set = fault_setter.load();
    if (set == nullptr) throw lacking(setting, "faults", "faults");
    set(*this, config_.faults, setting + ": value '" + config_.faults + "' is not allowed; ");
  }
  lanes_.start();
  if (administration_)
    administration_->open();
  else if (!config_.dump.empty())
    throw lacking(setting_name("dump", config_), "control sockets", "control");
  else if (config_.control != "off" && config_.control != "auto")
    throw lacking(setting_name("control", config_), "control sockets", "control");
}

DeviceCore::~DeviceCore() {
  if (administration_) administration_->close();
}

void DeviceCore::release(DeviceCore* core) noexcept {
  if (core->forked() && !core->at_rest()) {
    static std::vector<DeviceCore*>& kept = *new std::vector<DeviceCore*>;  // so it is no leak
    kept.push_back(core);
    return;
  }
  delete core;
}

/// In a forked child: no thread of the parent was changing anything.
bool DeviceCore::at_rest() noexcept {
  const std::unique_lock objects(objects_, std::try_to_lock);
  const std::unique_lock placing(placing_, std::try_to_lock);
  bool rest = (administration_ == nullptr || administration_->at_rest()) && objects.owns_lock() &&
              placing.owns_lock();
  for (const auto& lane : lanes_) {
    const std::unique_lock lock(lane->mutex(), std::try_to_lock);
    rest = rest && lock.owns_lock();
  }
  return rest;
}

// --- Objects that serve all lanes: the same call in each, with the same result

PdId DeviceCore::alloc_pd() {
  const std::lock_guard objects(objects_);
  Result<PdId> pd = Errc::no_resources;
  const AllLanes all(lanes_);
  for (const auto& lane : lanes_) pd = lane->engine().alloc_pd();
  if (!pd) throw Error(pd.error(), "protection domains: see option max_pds");
  ++pds_;
  return *pd;
}

Errc DeviceCore::dealloc_pd(PdId pd) noexcept {
  if (pd == default_pd_) return Errc::in_use;
  const std::lock_guard objects(objects_);
  const AllLanes all(lanes_);
  for (const auto& lane : lanes_)
    if (lane->engine().pd_in_use(pd)) return Errc::in_use;
  Errc e = Errc::ok;
  for (const auto& lane : lanes_) e = lane->engine().dealloc_pd(pd);
  if (e == Errc::ok) --pds_;
  return e;
}

std::uint32_t DeviceCore::register_memory(void* address, std::size_t length, Access access,
                                          PdId pd) {
  if (address != nullptr) check_registrable(address, length, access);
  const std::lock_guard objects(objects_);
  const std::uint32_t key = lanes_[0].register_memory(address, length, access, pd, std::nullopt);
  unsigned done = 1;
  try {
    for (; done < lanes_.count(); ++done)
      (void)lanes_[done].register_memory(address, length, access, pd, key);
  } catch (...) {
    while (done-- > 0) {
      (void)lanes_[done].with_engine(
          [key](engine::Engine& engine, Time) { return engine.deregister_memory(key, true); });
      lanes_[done].release_memory(key);
    }
    throw;
  }
  ++mrs_;
  return key;
}

Errc DeviceCore::deregister_memory(std::uint32_t key, bool force) noexcept {
  const std::lock_guard objects(objects_);  // until no lane keeps the number for a port
  {
    const AllLanes all(lanes_);
    for (const auto& lane : lanes_)
      if (!force && lane->engine().memory_in_use(key)) return Errc::in_use;
    for (const auto& lane : lanes_)
      if (const Errc e = lane->engine().deregister_memory(key, true); e != Errc::ok) return e;
  }
  for (const auto& lane : lanes_) lane->release_memory(key);
  --mrs_;
  return Errc::ok;
}

DeviceCore::Cq DeviceCore::create_cq(std::uint32_t depth, std::shared_ptr<ChannelEvents> channel) {
  engine::check("creating a completion queue", {{"depth", depth, 1, engine::kMaxCqDepth}});
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) throw_errno("cannot open a completion queue's event descriptor");
  const std::lock_guard objects(objects_);
  std::optional<CqId> id;
  unsigned done = 0;
  try {
    for (; done < lanes_.count(); ++done) {
      Result<CqId> cq = lanes_[done].with_engine(
          [depth](engine::Engine& engine, Time) { return engine.create_cq(depth); });
      if (!cq)
        throw Error(cq.error(),
                    "completion queue of " + std::to_string(depth) + " entries" +
                        (cq.error() == Errc::no_resources ? ": see option max_cqs" : ""));
      id = *cq;
    }
    const int fd = event.fd();
    cq_events_.add(*id, std::move(event), std::move(channel));
    lanes_.reset(*id);
    ++cqs_;
    return {*id, fd};
  } catch (...) {
    while (done-- > 0)
      (void)lanes_[done].with_engine(
          [&](engine::Engine& engine, Time) { return engine.destroy_cq(*id); });
    throw;
  }
}

Errc DeviceCore::close_cq(CqId cq) noexcept {
  const std::lock_guard objects(objects_);
  {
    const AllLanes all(lanes_);
    for (const auto& lane : lanes_)
      if (const auto* ring = lane->engine().find_cq(cq); ring != nullptr && ring->users > 0)
        return Errc::in_use;
    if (!cq_events_.remove(cq)) return Errc::in_use;
    for (const auto& lane : lanes_)
      if (const Errc e = lane->engine().destroy_cq(cq); e != Errc::ok) return e;
  }
  events_.remove_if([cq](const DeviceEvent& event) {
    return event.kind == DeviceEvent::Kind::cq_overrun && event.cq == cq;
  });
  --cqs_;
  return Errc::ok;
}

// --- Objects of one lane

/// The lane that the option with that name asks for, or the one with the fewest queue pairs.
Lane& DeviceCore::place(std::optional<unsigned> wanted, const char* option) {
  if (!wanted) return lanes_.emptiest();
  if (*wanted >= lanes_.count())
    throw Error(Errc::invalid_argument, std::string(option) + " is " + std::to_string(*wanted) +
                                            ", and the device has lanes 0 .. " +
                                            std::to_string(lanes_.count() - 1) +
                                            ": see option lanes");
  return lanes_[*wanted];
}

DeviceCore::Srq DeviceCore::create_srq(PdId pd, std::uint32_t depth, std::uint32_t sges,
                                       std::optional<unsigned> wanted) {
  engine::check("creating a shared receive queue",
                {{"depth", depth, 1, engine::kMaxQueue}, {"sges", sges, 1, kMaxReceiveSges}});
  const std::lock_guard placing(placing_);
  Lane& lane = place(wanted, "SrqOptions::lane");
  Result<SrqId> srq = lane.with_engine(
      [&](engine::Engine& engine, Time) { return engine.create_srq(pd, depth, sges); });
  if (!srq)
    throw Error(srq.error(),
                "shared receive queue of " + std::to_string(depth) + " requests with up to " +
                    std::to_string(sges) + " SGEs" +
                    (srq.error() == Errc::no_resources ? ": see option max_srqs" : ""));
  ++lane.srqs();
  ++srqs_;
  return {&lane, *srq};
}

Errc DeviceCore::close_srq(Lane& lane, SrqId srq) noexcept {
  const std::lock_guard placing(placing_);
  const Errc e =
      lane.with_engine([srq](engine::Engine& engine, Time) { return engine.destroy_srq(srq); });
  if (e != Errc::ok) return e;
  // Before another queue gets the number.
  events_.remove_if([number = device_srq(lane.index(), srq)](const DeviceEvent& event) {
    return event.kind == DeviceEvent::Kind::srq_limit && event.srq == number;
  });
  --lane.srqs();
  --srqs_;
  return Errc::ok;
}

/// A queue pair was made in a lane, which serves its completion queues from now on. Throws
/// mrc::Error if it was not made.
void DeviceCore::serve(Lane& lane, const Result<Qpn>& made, CqId send_cq, CqId receive_cq) {
  if (!made) {
    std::string doing(kCreatingQp);
    if (made.error() == Errc::no_resources) doing += ": see option max_qps";
    if (made.error() == Errc::unsupported)
      doing += ": one with a shared receive queue needs QpAttributes::rc, without option strict";
    throw Error(made.error(), doing);
  }
  lanes_.serve(send_cq, lane);
  lanes_.serve(receive_cq, lane);
}

// --- The rest

void DeviceCore::check_plane(unsigned plane) const {
  if (plane >= plane_count())
    throw Error(Errc::invalid_argument, "plane " + std::to_string(plane) +
                                            ": the device has no such plane; the last one is " +
                                            std::to_string(plane_count() - 1));
}

void DeviceCore::set_plane_enabled(unsigned plane, bool enabled) {
  check_plane(plane);
  const PlaneMask bit = plane_bit(static_cast<Plane>(plane));
  const std::lock_guard objects(objects_);  // the same in all lanes
  const PlaneMask down = enabled ? planes_down_ & ~bit : planes_down_ | bit;
  for (const auto& lane : lanes_) lane->set_planes_down(down);
  planes_down_ = down;
}

PlaneMask DeviceCore::planes_down() {
  const std::lock_guard objects(objects_);
  return planes_down_;
}

DeviceStats DeviceCore::stats(bool peers) {
  DeviceStats s;
  s.pds = pds_;
  s.mrs = mrs_;
  s.cqs = cqs_;
  s.srqs = srqs_;
  s.events_dropped = events_.dropped();
  for (const auto& lane : lanes_) lane->add_to(s, peers);
  return s;
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

/// Opens another lane, under the slot after that of the last if option slot is set; `open` files
/// are, and a lane opens `each`. Returns why it can't.
std::string Lanes::open_next(const LaneSurroundings& around, std::size_t open, std::size_t each) {
  if (!may_open(open, each))
    return "a lane opens " + std::to_string(each) + " files and the limit is " +
           std::to_string(allowed_files()) + "; raise it with `ulimit -n`, or set fewer paths";
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
