// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "mrc/control/profiles.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/profile_types.hpp"

namespace mrc::inline v0_1::detail {

class DeviceControl;

/// Which planes and paths of a lane administrators have taken out of use: the rules of the device,
/// and of the host.
class LaneSteering final : public Steering {
 public:
  explicit LaneSteering(PlaneKind& kind)
      : kind_(kind), host_rules_(std::make_shared<const HostState>()) {}

  /// The rules of this device alone.
  [[nodiscard]] SteeringRules& own() noexcept { return own_; }
  /// Those of the host count from now on.
  void follow(std::shared_ptr<HostRules> host) noexcept { host_ = std::move(host); }
  [[nodiscard]] bool stale() const noexcept override {
    return host_ != nullptr && host_->number() != number_;
  }
  bool refresh() noexcept override {
    if (host_ == nullptr) return false;
    HostRules::Reading reading = host_->rules();
    number_ = reading.number;
    return std::exchange(host_rules_, std::move(reading.rules)) != host_rules_;
  }

  [[nodiscard]] PlaneMask planes_down() const noexcept override {
    return own_.planes_down | host_rules_->steering.planes_down;
  }
  [[nodiscard]] bool denies(const PeerRoute& route, const path::PathSpec& path) const override {
    return denies(own_, route, path) || denies(host_rules_->steering, route, path);
  }
  /// What refresh() took.
  [[nodiscard]] const HostState& host_state() const noexcept { return *host_rules_; }

 private:
  [[nodiscard]] bool denies(const SteeringRules& rules, const PeerRoute& route,
                            const path::PathSpec& path) const {
    return std::any_of(rules.denied.begin(), rules.denied.end(), [&](const DeniedPaths& denied) {
      return denied.plane == path.plane && kind_.is_among(denied, route, path);
    });
  }

  PlaneKind& kind_;
  SteeringRules own_;
  std::shared_ptr<const HostState> host_rules_;
  std::shared_ptr<HostRules> host_;
  std::uint64_t number_ = 0;  ///< HostRules::number() that host_rules_ are of
};

/// EV events that wait for a reader (mrc-1.0 §3.7). When there is no room, an event is dropped, and
/// the next one that finds room says how many were. Any thread; it has a lock of its own, under
/// which it calls nothing.
class MRC_LOCAL EvEventQueue {
 public:
  /// Room for `depth` events. Throws mrc::Error.
  explicit EvEventQueue(std::size_t depth)
      : events_(depth), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.open()) throw_errno("cannot open an event descriptor");
  }

  /// Appends an event; event.drop_count were lost before it got here.
  void push(EvEvent event) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint64_t lost = std::uint64_t{dropped_} + event.drop_count;
    event.drop_count = static_cast<std::uint32_t>(std::min<std::uint64_t>(lost, UINT32_MAX));
    if (!events_.push_back(event)) {
      dropped_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(lost + 1, UINT32_MAX));
      return;
    }
    dropped_ = 0;
    const std::uint64_t one = 1;
    if (events_.size() == 1) (void)uncancelled::write(fd_.fd(), &one, sizeof one);
  }
  /// Takes the oldest events. Returns how many.
  std::size_t poll(std::span<EvEvent> out) noexcept {
    if (fork_.forked()) return 0;  // the lock may be held by a thread that is not here
    const std::lock_guard lock(mutex_);
    std::size_t n = 0;
    for (; n < out.size() && !events_.empty(); ++n) {
      out[n] = events_.front();
      events_.pop_front();
    }
    std::uint64_t count = 0;
    if (n > 0 && events_.empty()) (void)uncancelled::read(fd_.fd(), &count, sizeof count);
    return n;
  }
  /// Readable while there are events.
  [[nodiscard]] int fd() const noexcept { return fd_.fd(); }

 private:
  const ForkMark fork_;
  std::mutex mutex_;
  Ring<EvEvent> events_;
  UniqueFd fd_;
  std::uint32_t dropped_ = 0;  ///< since the newest event that found room
};

/// Gives EV events to all queues that there are. Any thread; its lock may be taken under a lane's.
class EvEvents {
 public:
  /// In a forked child: no thread of the parent held the lock.
  [[nodiscard]] bool at_rest() noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }
  /// Events go there, too, from now on, while another owner holds the queue.
  void add(const std::shared_ptr<EvEventQueue>& queue) {
    const std::lock_guard lock(mutex_);
    std::erase_if(queues_, [](const auto& other) { return other.expired(); });
    queues_.push_back(queue);
    any_ = true;
  }
  /// Whether somebody reads.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  void push(const EvEvent& event) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(queues_, [&](const auto& entry) {
      const auto queue = entry.lock();
      if (queue) queue->push(event);
      return queue == nullptr;
    });
    any_ = !queues_.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<EvEventQueue>> queues_;
  std::atomic<bool> any_{false};
};

/// The administration of a device: its profiles, who reads EV events, the rules of the device
/// itself, and what the options control and dump ask for. Any thread. Order of locks: those of this
/// class, those of the lanes, those of events.
class MRC_LOCAL DeviceAdministration final : public Administration {
 public:
  /// `core` must outlive it, and is used from open() on.
  explicit DeviceAdministration(DeviceCore& core);
  ~DeviceAdministration() override;

  void open() override;
  void close() noexcept override;
  [[nodiscard]] std::unique_ptr<Steering> make_steering() override;
  void acquire(const QpProfiles& profiles) override { profiles_.acquire(profiles); }
  void release(const QpProfiles& profiles) noexcept override { profiles_.release(profiles); }
  [[nodiscard]] EvTablePtr table(ProfileId id) noexcept override { return profiles_.table(id); }
  [[nodiscard]] cc::Options cc_options(ProfileId id) override { return profiles_.cc_options(id); }
  void follow(Lane& lane, Time now) noexcept override;
  void on_path_event(Lane& lane, const engine::Peer& peer,
                     const path::PathEvent& event) noexcept override;
  [[nodiscard]] bool at_rest() noexcept override;

  // --- Profiles; all but the getters throw mrc::Error
  void change_format_profile(ProfileId id, const FormatProfileChange& change);
  void change_ev_profile(ProfileId id, const EvProfileChange& change);
  void change_cc_profile(ProfileId id, const CcProfileChange& change);
  /// The program's own, or the host's.
  [[nodiscard]] EvProfileInfo ev_profile(ProfileId id, bool of_host = false);
  /// Of lane 0.
  [[nodiscard]] std::vector<ProfileEv> own_evs() const;
  /// As Device::own_evs().
  [[nodiscard]] std::vector<EvEntry> own_ev_entries() const;
  [[nodiscard]] Profiles& profiles() noexcept { return profiles_; }
  [[nodiscard]] EvEvents& ev_events() noexcept { return ev_events_; }

  // --- Rules
  /// The paths that are denied in this device, by others than its profiles. Throws mrc::Error if
  /// the planes have nothing that these could mean; then nothing changes.
  void set_denied(std::vector<DeniedPaths> denied);
  [[nodiscard]] std::vector<DeniedPaths> denied();
  /// Whether set_denied() would take it; false where the planes know nothing of switches. Throws
  /// mrc::Error if there is no such part.
  [[nodiscard]] bool can_deny(const DeniedPaths& denied) const;
  /// The host's rules count, too, from now on, as they are now.
  void follow(const std::shared_ptr<HostRules>& host) noexcept;

 private:
  void open_profiles();
  void check_ev(path::EvMode mode, const ExpandedEv& ev) const;

  DeviceCore& core_;
  Profiles profiles_;
  EvEvents ev_events_;
  std::mutex changing_profiles_;  ///< held until a change has reached all lanes
  std::mutex changing_rules_;     ///< held until a change has reached all lanes
  std::vector<DeniedPaths> denied_;
  std::unique_ptr<DeviceControl> control_;  ///< null: neither socket nor dumps
};

/// That of a device. Throws mrc::Error (unsupported) if it was opened before the module joined.
[[nodiscard]] DeviceAdministration& administration_of(DeviceCore& core);

/// For administration_maker.
[[nodiscard]] std::unique_ptr<Administration> make_administration(DeviceCore& core);

}  // namespace mrc::inline v0_1::detail
