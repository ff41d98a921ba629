// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/exchange.hpp"
#include "mrc/host/cq_events.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/host/progress.hpp"
#include "mrc/host/rounds.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/qp_change.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1::detail {

/// The lanes that a device is to have.
[[nodiscard]] unsigned wanted_lanes(const Config& config) noexcept;

/// One engine with ports, lock, peers and helper thread of its own. To the network a lane is like a
/// process: it has a slot, and queue pairs with the QPNs of that slot.
///
/// Thread contract: any thread, without the lock, which is taken once per call, not per packet.
class MRC_LOCAL alignas(64) Lane {  // shares no cache line with another one
 public:
  /// Opens the ports, under that slot or the lowest free one. Throws mrc::Error.
  Lane(const LaneSurroundings& around, unsigned index, std::optional<std::uint8_t> slot);
  /// Sends what is pending; in a forked child nothing.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  /// Starts the helper thread. Throws mrc::Error.
  void start() { progress_.start(); }
  void stop() noexcept { progress_.stop(); }

  [[nodiscard]] unsigned index() const noexcept { return index_; }
  [[nodiscard]] std::uint8_t slot() const noexcept { return planes_.slot; }
  [[nodiscard]] const OpenedPlanes& planes() const noexcept { return planes_; }
  /// The plane whose address is the GID.
  [[nodiscard]] Plane gid_plane() const noexcept { return rounds_.gid_plane(); }
  [[nodiscard]] Progress& progress() noexcept { return progress_; }
  [[nodiscard]] const Config& config() const noexcept { return around_.config; }
  [[nodiscard]] const Log& log() const noexcept { return around_.log; }
  [[nodiscard]] Resolver* resolver() noexcept { return resolver_.get(); }
  /// From this on a seed for each plane: another in each lane, the same again with option seed.
  [[nodiscard]] std::uint64_t plane_seed() const noexcept {
    return apart(around_.config.seed != 0 ? around_.config.seed : around_.guid);
  }

  /// Runs f(engine, now) under the lock.
  template <class F>
  auto with_engine(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(engine_, monotonic_now());
  }
  /// As with_engine(), for calls that may complete requests, but rarely do, and queue no packets.
  template <class F>
  auto with_events(F&& f) noexcept {
    const std::lock_guard lock(mutex_);
    const Time now = monotonic_now();
    const auto result = f(engine_, now);
    if (engine_.has_event()) [[unlikely]] {
      rounds_.after_post(now, engine_.quiet());
      progress_.deadline_changed();
    }
    return result;
  }
  /// As with_engine(), for calls that may queue packets or complete requests. Packets leave at once
  /// if the engine was idle, else with the next round.
  template <class F>
  auto with_doorbell(F&& f) noexcept {
    const std::lock_guard lock(mutex_);
    const Time now = monotonic_now();
    const bool idle = engine_.quiet();
    const auto result = f(engine_, now);
    rounds_.after_post(now, idle);
    progress_.deadline_changed();
    return result;
  }

  /// How often round_until() looks.
  static constexpr Duration kLook = std::chrono::microseconds(500);
  /// Makes rounds, each with f(now) behind it, until that returns false or the time is over; holds
  /// the lock for each alone.
  template <class F>
  void round_until(Time end, F&& f) {
    std::unique_lock lock(mutex_);
    while (true) {
      const Time now = monotonic_now();
      (void)rounds_.advance(now);
      const bool waits = f(now);
      progress_.deadline_changed();
      if (!around_.config.helper) (void)rounds_.arm();
      if (!waits || now >= end) return;
      lock.unlock();
      nap(end);
      lock.lock();
    }
  }

  /// The lock, and what it guards: for modules, and what must happen in all lanes at once.
  [[nodiscard]] CourteousMutex& mutex() noexcept { return mutex_; }
  [[nodiscard]] engine::Engine& engine() noexcept { return engine_; }
  [[nodiscard]] OpenedPlanes& planes() noexcept { return planes_; }
  [[nodiscard]] Peers& peer_table() noexcept { return peers_; }
  [[nodiscard]] PeerFilter& filter() noexcept { return filter_; }
  [[nodiscard]] const Steering& steering() const noexcept { return *steering_; }
  [[nodiscard]] Rounds& rounds() noexcept { return rounds_; }
  [[nodiscard]] EventQueue<DeviceEvent>& events() noexcept { return around_.events; }
  /// What the peer of an own queue pair needs to know. Throws mrc::Error.
  [[nodiscard]] ConnectionInfo info_of(Qpn qpn) const;
  [[nodiscard]] PeerProfiles profiles_of(Qpn qpn) const;

  /// For Rounds: the engine has path events.
  void report_path_events() noexcept;
  /// For Rounds: steering is stale.
  void refresh_steering(Time now) noexcept {
    if (steering_->refresh()) apply_steering(now);
  }

  // --- Queue pairs
  [[nodiscard]] QpAttributes default_attributes() const noexcept;
  [[nodiscard]] ConnectionInfo local_info(Qpn qpn);
  void connect(Qpn qpn, const ConnectionInfo& peer);
  void modify(Qpn qpn, const QpChange& change);
  [[nodiscard]] QpInfo query(Qpn qpn);
  Errc close_qp(Qpn qpn) noexcept;
  Errc reset_qp(Qpn qpn) noexcept;
  [[nodiscard]] std::string error_text(Qpn qpn);

  /// How many shared receive queues it has, as DeviceCore counts them, under its own lock.
  [[nodiscard]] std::uint32_t& srqs() noexcept { return srqs_; }

  // --- Profiles
  /// Throws mrc::Error if profiles are wanted and there is no administration.
  void check_profiles(const QpProfiles& wanted, const std::string& doing) const;
  /// Those that it gets on its way to INIT.
  void set_profiles(Qpn qpn, const QpProfiles& profiles);

  // --- Memory regions
  /// Registers with the engine and all ports, under a new key or a given one. Throws mrc::Error.
  [[nodiscard]] std::uint32_t register_memory(void* address, std::size_t length, Access access,
                                              PdId pd, std::optional<std::uint32_t> key);
  /// The engine has deregistered the region: returns when no port reads it any more.
  void release_memory(std::uint32_t key) noexcept;

  // --- Administration of planes
  /// Planes that are out of use in this device alone. When it returns, nothing leaves in these.
  void set_planes_down(PlaneMask planes) noexcept;
  /// change(Steering&). When it returns, nothing leaves in a plane, or on a path, that is out of
  /// use.
  template <class F>
  void steer(F&& change) {
    const std::lock_guard lock(mutex_);
    change(*steering_);
    steered();
  }
  [[nodiscard]] PlaneState plane_state(unsigned plane) noexcept;

  // --- Faults and statistics
  /// What injects faults from now on, in place of what did until now.
  void start_faults(std::unique_ptr<LaneService> faults) noexcept;
  /// Adds what this lane has counted, with or without a report on each peer.
  void add_to(DeviceStats& stats, bool peers);

  // --- Reports: in parts, so that no call holds the lock for long
  [[nodiscard]] std::size_t qp_places() noexcept {
    const std::lock_guard lock(mutex_);
    return engine_.context().objects.qp_places();
  }
  /// Some of the queue pairs, at most `most`, from place `at` on, which moves behind the last place
  /// looked at, to qp_places() in the end.
  [[nodiscard]] std::vector<QpReport> queue_pairs(std::size_t& at, std::size_t most = SIZE_MAX);
  /// Under the lock.
  [[nodiscard]] QpReport report(const engine::QueuePairState& qp, Time now) const;
  /// Up to `most` paths to a peer, from the one with index `first` on.
  [[nodiscard]] std::vector<PathReport> paths(PeerId peer, std::size_t first, std::size_t most);
  [[nodiscard]] std::vector<PathReport> paths(Qpn qpn);

 private:
  [[nodiscard]] LaneParts parts() noexcept {
    return {around_, index_, planes_, engine_, filter_, *steering_};
  }
  [[nodiscard]] std::uint64_t apart(std::uint64_t seed) const noexcept;
  [[nodiscard]] OpenedPlanes open_planes(std::optional<std::uint8_t> slot) const;
  [[nodiscard]] engine::EngineOptions engine_options() const;
  [[nodiscard]] const engine::QueuePairState& in_state(Qpn qpn, QpState state,
                                                       const std::string& doing) const;
  void check_peer(const ConnectionInfo& info, const std::string& doing) const;
  void connect_to(Qpn qpn, const QpChange& change, const std::string& doing);
  void resolve(Qpn qpn, const QpChange& change, const std::string& doing);
  [[nodiscard]] PeerId peer_for(std::unique_lock<CourteousMutex>& lock, Qpn qpn,
                                const ConnectionInfo& info, const std::string& doing);
  void nap(Time end) const noexcept;
  void steered() noexcept;
  void apply_steering(Time now) noexcept;
  [[nodiscard]] static std::vector<PathReport> paths_of(const engine::Peer& peer, std::size_t first,
                                                        std::size_t most);
  void to_init(Qpn qpn, const std::optional<QpProfiles>& wanted, const std::string& doing);
  void enter_init(Qpn qpn, const std::string& doing);
  void release_profiles(Qpn qpn) noexcept;
  /// Ends the connection of a queue pair with f(qpn), and forgets the peer if it was the last.
  template <class F>
  Errc disconnect(Qpn qpn, F&& f) noexcept;

  const unsigned index_;
  std::uint32_t srqs_ = 0;
  const ForkMark fork_;
  const LaneSurroundings around_;
  static constexpr unsigned kMostNarrowPathsLogged = 16;
  unsigned narrow_paths_logged_ = 0;  ///< one link that is too narrow has paths to many peers
  OpenedPlanes planes_;
  engine::Engine engine_;
  PeerFilter filter_;
  const std::unique_ptr<Steering> steering_;
  PlaneMask planes_down_ = 0;  ///< set_planes_down()
  Peers peers_;
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<LaneService> faults_;  ///< null: none were ever set
  Rounds rounds_;
  CourteousMutex mutex_;
  Progress progress_;
  struct Chosen {
    QpProfiles profiles;
    bool held = false;  ///< from INIT on
  };
  std::unordered_map<std::uint32_t, Chosen> chosen_;  ///< by QPN
};

}  // namespace mrc::inline v0_1::detail
