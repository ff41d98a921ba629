// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/host/cq_events.hpp"
#include "mrc/host/lane.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1::detail {

/// The lanes of a device, and which of them serve which completion queue: those in which a queue
/// pair uses it, or has used it. Polling a queue makes progress in these only: threads with a queue
/// and lanes of their own never meet. Any thread.
class MRC_LOCAL Lanes {
 public:
  /// Opens as many lanes as option lanes asks for; fewer, and logs why, if there are not enough
  /// slots or open files. Throws mrc::Error if not even one can be opened.
  explicit Lanes(const LaneSurroundings& around);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  /// Starts their helper threads. Throws mrc::Error.
  void start();

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(lanes_.size()); }
  [[nodiscard]] Lane& operator[](unsigned lane) const noexcept { return *lanes_[lane]; }
  [[nodiscard]] auto begin() const noexcept { return lanes_.begin(); }
  [[nodiscard]] auto end() const noexcept { return lanes_.end(); }

  /// The lane with the fewest queue pairs; of several the first with the fewest shared receive
  /// queues, whose queue pairs are still to come.
  [[nodiscard]] Lane& emptiest() noexcept;
  void serve(CqId cq, Lane& lane) noexcept;
  void reset(CqId cq) noexcept;

  /// One round in each lane, by a thread that polls. True if anything moved or is still to go out.
  bool poll() noexcept;
  /// Completions of a queue. Makes a round in the lanes that serve it, until one has completions.
  std::size_t poll_cq(CqId cq, std::span<Completion> out) noexcept;
  std::size_t wait_cq(CqId cq, std::span<Completion> out, Duration timeout) noexcept;
  Errc arm_cq(CqId cq, Arm what) noexcept;

 private:
  /// Lanes by number, one bit each.
  using Mask = std::uint64_t;
  static_assert(kMaxLanes <= 64);
  struct alignas(64) Serving {  // a cache line of its own: polled by different threads
    std::atomic<Mask> mask{0};
    std::atomic<unsigned> turn{0};  ///< the lane that the next poll looks at first
  };

  [[nodiscard]] std::string open_next(const LaneSurroundings& around, std::size_t open,
                                      std::size_t each);
  [[nodiscard]] static std::size_t index(CqId cq) noexcept { return static_cast<std::size_t>(cq); }
  /// Never empty: a queue that nobody uses yet is served by the first lane.
  [[nodiscard]] Mask serving(CqId cq) const noexcept;
  template <class F>
  void for_each(Mask mask, F&& f) const;
  std::size_t sleep(CqId cq, Mask lanes, std::span<Completion> out, Time until) noexcept;

  const Config& config_;
  CqEvents& cq_events_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Serving> serving_;  ///< by CqId; empty if there is one lane
};

/// Holds the locks of all lanes, for what must happen in all of them at once.
class MRC_LOCAL AllLanes {
 public:
  explicit AllLanes(Lanes& lanes) noexcept : lanes_(lanes) {
    for (const auto& lane : lanes_) lane->mutex().lock();  // always in this order
  }
  ~AllLanes() {
    for (const auto& lane : lanes_) lane->mutex().unlock();
  }
  AllLanes(const AllLanes&) = delete;
  AllLanes& operator=(const AllLanes&) = delete;

 private:
  Lanes& lanes_;
};

/// What is behind a Device and its handles: the lanes, and what serves all of them. Protection
/// domains, memory keys and completion queues have the same number in the engine of each lane.
/// Queue pairs belong to a Lane, and their handles talk to it.
///
/// Any thread. Order of locks: those here, of the lanes by their numbers, of events.
class MRC_LOCAL DeviceCore {
 public:
  /// Throws mrc::Error.
  explicit DeviceCore(const Config& config);
  /// With planes of another kind than the configuration names. Throws mrc::Error.
  DeviceCore(const Config& config, std::unique_ptr<PlaneKind> kind);
  ~DeviceCore();
  /// For the last handle: destroys the core. In a forked child only descriptors and memory are
  /// freed, and nothing at all if a thread of the parent was at work: its state is not known.
  static void release(DeviceCore* core) noexcept;
  DeviceCore(const DeviceCore&) = delete;
  DeviceCore& operator=(const DeviceCore&) = delete;

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] Log& log() noexcept { return log_; }
  [[nodiscard]] Lanes& lanes() noexcept { return lanes_; }
  /// This process is a fork of the one that opened the device. Handles call nothing else then:
  /// locks may be held by threads that are not here.
  [[nodiscard]] bool forked() const noexcept { return fork_.forked(); }

  [[nodiscard]] PdId default_pd() const noexcept { return default_pd_; }
  /// Throws mrc::Error at the limit.
  [[nodiscard]] PdId alloc_pd();
  Errc dealloc_pd(PdId pd) noexcept;

  /// Registers with the engines and all ports. Throws mrc::Error.
  [[nodiscard]] std::uint32_t register_memory(void* address, std::size_t length, Access access,
                                              PdId pd);
  /// As Engine::deregister_memory(), and returns when no port reads the memory any more.
  Errc deregister_memory(std::uint32_t key, bool force) noexcept;

  struct Cq {
    CqId id{};
    int fd = -1;
  };
  /// Throws mrc::Error.
  [[nodiscard]] Cq create_cq(std::uint32_t depth, std::shared_ptr<ChannelEvents> channel);
  Errc close_cq(CqId cq) noexcept;
  [[nodiscard]] CqEvents& cq_events() noexcept { return cq_events_; }

  struct Srq {
    Lane* lane = nullptr;
    SrqId srq{};
  };
  /// In that lane, or the one with the fewest queue pairs. Throws mrc::Error.
  [[nodiscard]] Srq create_srq(PdId pd, std::uint32_t depth, std::uint32_t sges,
                               std::optional<unsigned> lane);
  Errc close_srq(Lane& lane, SrqId srq) noexcept;

  struct Qp {
    Lane* lane = nullptr;
    Qpn qpn{};
  };
  /// What an error says was attempted.
  static constexpr std::string_view kCreatingQp = "creating a queue pair";
  /// A queue pair of whatever kind that make(Lane&) makes, in the lane that the option with that
  /// name asks for, or the one with the fewest; `init` has its capacity and completion queues.
  template <class Init, class F>
  [[nodiscard]] Qp create_in_lane(std::optional<unsigned> wanted, const char* option,
                                  const Init& init, F&& make) {
    engine::check(kCreatingQp, engine::out_of_range(init.capacity));
    const std::lock_guard placing(placing_);
    Lane& lane = place(wanted, option);
    const Result<Qpn> qpn = make(lane);
    serve(lane, qpn, init.send_cq, init.receive_cq);
    return {&lane, qpn.value()};
  }

  /// Null: there is none.
  [[nodiscard]] Administration* administration() noexcept { return administration_.get(); }

  [[nodiscard]] EventQueue<DeviceEvent>& events() noexcept { return events_; }
  /// Its names of hosts and switches: any thread.
  [[nodiscard]] PlaneKind& kind() const noexcept { return *kind_; }
  /// Names this device to its peers.
  [[nodiscard]] std::uint64_t guid() const noexcept { return guid_; }
  [[nodiscard]] unsigned plane_count() const noexcept { return lanes_[0].planes().count(); }
  /// With what is known of each peer, or without.
  [[nodiscard]] DeviceStats stats(bool peers = true);

  /// Throws mrc::Error if there is no such plane.
  void set_plane_enabled(unsigned plane, bool enabled);
  /// The planes that are out of use in this device alone.
  [[nodiscard]] PlaneMask planes_down();

  /// Throws mrc::Error if there is no such plane.
  void check_plane(unsigned plane) const;

 private:
  [[nodiscard]] bool at_rest() noexcept;
  [[nodiscard]] Lane& place(std::optional<unsigned> wanted, const char* option);
  void serve(Lane& lane, const Result<Qpn>& made, CqId send_cq, CqId receive_cq);

  const Config config_;  ///< in force: the user's, completed by the kind of planes
  const std::unique_ptr<PlaneKind> kind_;
  Log log_;
  const std::uint64_t guid_;  ///< names this device to its peers
  CqEvents cq_events_;
  EventQueue<DeviceEvent> events_;
  const std::unique_ptr<Administration> administration_;
  std::atomic<PlaneMask> singly_logged_{0};
  std::mutex objects_;         ///< held while objects of all lanes come, go or change
  PlaneMask planes_down_ = 0;  ///< set_plane_enabled()
  std::mutex placing_;         ///< held while what belongs to a lane gets one
  std::atomic<std::uint32_t> pds_{0}, mrs_{0}, cqs_{0}, srqs_{0};
  const ForkMark fork_;  // beside what a poll reads
  Lanes lanes_;
  const PdId default_pd_;
};

/// Whether a handle can be used: Errc::not_found if it is empty, Errc::forked in a forked child.
[[nodiscard]] inline Errc usable(const std::shared_ptr<DeviceCore>& core) noexcept {
  if (!core) return Errc::not_found;
  return core->forked() ? Errc::forked : Errc::ok;
}

/// What a handle refers to. Throws mrc::Error if it can't be used; `closed` says that it is empty.
[[nodiscard]] inline DeviceCore& core_of(const std::shared_ptr<DeviceCore>& core,
                                         const char* closed = "") {
  const Errc e = usable(core);
  if (e == Errc::forked)
    throw Error(e, "a device can't be used after fork(); open another one in the child");
  if (e != Errc::ok) throw Error(e, closed);
  return *core;
}

}  // namespace mrc::inline v0_1::detail
