// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/host/cq_events.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

/// Notices that the kernel stops this process because its control group, or one above it, has used
/// up its processor time (cgroup, `cpu.max` or `cpu.cfs_quota_us`). One thread at a time.
class ThrottleWatch {
 public:
  /// Since the object was made.
  struct Throttled {
    std::filesystem::path group;  ///< folder of the group
    std::uint64_t times = 0;
    Duration time{};  ///< all together
  };

  /// `groups`: where control groups are mounted; `own`: the file that names this process's.
  explicit ThrottleWatch(const std::filesystem::path& groups = "/sys/fs/cgroup",
                         const std::filesystem::path& own = "/proc/self/cgroup");
  /// The innermost group that was stopped; nothing if none was, or if nobody can know. Reads a file
  /// for each group.
  [[nodiscard]] std::optional<Throttled> look() const;
  /// True for the first who asks: devices of a process are stopped together, and one says so.
  [[nodiscard]] static bool first_to_tell() noexcept;

 private:
  std::vector<Throttled> before_;  ///< groups with a quota file, from the innermost one on
};

/// One round of progress between the engine of a lane and its ports: receive from every port, link
/// states, timers, transmit, events. Under the lane's lock; which thread makes it: Progress.
class Rounds {
 public:
  /// Marks the planes that are down at `start` in the engine. Lane 0 reports and logs planes that
  /// go and come, for all lanes.
  Rounds(const LaneParts& parts, Lane& owner, Time start);

  /// Each round calls it from now on, until dismiss().
  void serve(LaneService& service) { services_.push_back(&service); }
  void dismiss(LaneService& service) noexcept { std::erase(services_, &service); }

  /// Receives first, then transmits. True if anything moved.
  bool advance(Time now) noexcept;
  /// Transmits first: the round of a thread that polls and will be back soon, whose next call sends
  /// answers to received packets. A program that polls memory sees its message, and has its reply
  /// under way, two system calls earlier.
  bool advance_out_first(Time now) noexcept;
  /// Transmits, and signals events. True if something was sent.
  bool send(Time now) noexcept;
  /// After application calls that may have queued packets. `idle`: the engine had nothing to do
  /// before, so no round is near and this call sends; else the next round does, in larger bursts.
  void after_post(Time now, bool idle) noexcept;

  /// Before a thread sleeps on the ports' descriptors. False: another round is due.
  [[nodiscard]] bool arm() noexcept;

  /// Packets that came or that ports have taken.
  [[nodiscard]] std::uint64_t moved() const noexcept { return moved_; }
  /// The last round left something to send.
  [[nodiscard]] bool work_left() const noexcept { return work_left_; }
  /// send() may do something, maybe on a port that was busy.
  [[nodiscard]] bool wants_to_send(Time now) const noexcept { return work_left_ || now >= retry_; }
  /// Something is left to send, now or when a busy port is tried again.
  [[nodiscard]] bool unfinished() const noexcept { return work_left_ || retry_ != kNever; }
  /// When the next round is due if no packet arrives; Time::min() if work is left.
  [[nodiscard]] Time next_deadline() const noexcept;

  /// The plane is enabled, its link is up, and its port can carry the device's packets: the
  /// interface's MTU may have become too small.
  [[nodiscard]] bool usable(unsigned plane) noexcept;
  /// The plane whose address is the device's GID. Any thread.
  [[nodiscard]] Plane gid_plane() const noexcept {
    return gid_plane_.load(std::memory_order_relaxed);
  }
  struct Counts {
    std::vector<std::uint64_t>
        rx_disabled;  ///< [plane] packets that came in it while it was disabled
    std::vector<std::uint64_t> times_down;  ///< [plane] times that it became unusable
    std::uint64_t unconnected_answered = 0, unconnected_refused = 0;  ///< probes
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  bool take_in(Time now) noexcept;
  bool receive(Time now) noexcept;
  void take_early(Time now) noexcept;
  bool receive_once(Time now) noexcept;
  bool take_back(Time now, Port& port, Plane plane) noexcept;
  void answer_strangers(Time now, Plane plane) noexcept;
  void watch_links(Time now) noexcept;
  void look_for_quota(Time now) noexcept;
  void choose_gid_plane() noexcept;
  bool transmit(Time now) noexcept;
  void transmit(Time now, Plane plane, std::span<const wire::TxGroup> groups) noexcept;
  void signal_events() noexcept;
  void report(const engine::Engine::Event& event) noexcept;
  [[nodiscard]] bool reports_planes() const noexcept { return lane_.index == 0; }

  const LaneParts lane_;
  Lane& owner_;
  std::vector<LaneService*> services_;
  const ThrottleWatch throttled_;
  wire::TxBurst tx_;
  port::RxBurst rx_;
  std::vector<std::vector<wire::TxGroup>> by_plane_;  ///< groups of the burst that is being sent
  PlaneMask planes_up_ = 0;                           ///< as the application knows them
  PlaneMask too_small_ = 0;          ///< planes already logged as having too small an MTU
  std::atomic<Plane> gid_plane_{0};  ///< planes_.gid_plane
  PlaneMask busy_ = 0;               ///< ports that took no more, until retry_
  Time retry_ = kNever;
  Time last_round_{};        ///< the last time that the ports were read
  Time last_watch_{};        ///< the last look at links
  Time next_quota_look_{};   ///< kNever: nothing is to be found, or was
  bool watch_due_ = false;   ///< the last round left it to the next one
  bool more_waits_ = false;  ///< a port brought so much that it may have more
  bool work_left_ = false;
  std::uint64_t moved_ = 0;
  Counts counts_;
};

}  // namespace mrc::inline v0_1::detail
