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
#include <vector>

#include "mrc/api/device_config.hpp"
#include "mrc/api/device_stats.hpp"
#include "mrc/api/endpoint_types.hpp"
#include "mrc/api/qp_change.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/host/connector.hpp"
#include "mrc/host/cq_events.hpp"
#include "mrc/host/datagram_routes.hpp"
#include "mrc/host/endpoint_requests.hpp"
#include "mrc/host/faults.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/host/profiles.hpp"
#include "mrc/host/progress.hpp"
#include "mrc/host/rounds.hpp"
#include "mrc/host/steering.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// What the lanes of a device share. What it refers to must outlive them.
struct LaneSurroundings {
  const Config& config;
  const Log& log;
  std::uint64_t guid;  ///< names the device to its peers
  PlaneKind& kind;
  CqEvents& cq_events;
  EventQueue<DeviceEvent>& events;
  Profiles& profiles;
  EvEvents& ev_events;
  std::atomic<PlaneMask>& singly_logged;  ///< planes that were logged to send packets one by one
};

/// The lanes that a device is to have.
[[nodiscard]] unsigned wanted_lanes(const Config& config) noexcept;

/// What became of the EV probes on a path.
struct PathProbe {
  PathReport path;              ///< as it was before
  path::PathIndex index{};      ///< among the peer's paths
  std::uint16_t number = 0;     ///< of its newest probe
  unsigned sent = 0;            ///< probes; 0: the path may not carry any now
  std::optional<Duration> rtt;  ///< round trip of the one that was answered
};

/// One engine with what it works with: ports of its own, a lock, peers, and a thread that makes
/// progress. To the network a lane is like a process: it has a slot, and queue pairs with the QPNs
/// of that slot. A device has one lane or several.
///
/// The parts: Rounds (one round of progress), Progress (which thread makes it), Peers, PeerFilter,
/// Steering, Connector, DatagramRoutes, EndpointRequests, Faults.
///
/// Thread contract: any thread, without the lock. One mutex guards everything; it is taken once per
/// call, not per packet.
class MRC_LOCAL alignas(64) Lane {  // shares no cache line with another one
 public:
  /// Opens the ports, under that slot or the lowest free one. Throws mrc::Error.
  Lane(const LaneSurroundings& around, unsigned index, std::optional<std::uint8_t> slot);
  /// Sends what is pending; in a forked child nothing.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  /// Starts the helper thread. Throws mrc::Error.
  void start() { progress_.start(index_); }
  /// Ends it.
  void stop() noexcept { progress_.stop(); }

  [[nodiscard]] unsigned index() const noexcept { return index_; }
  [[nodiscard]] std::uint8_t slot() const noexcept { return planes_.slot; }
  [[nodiscard]] const OpenedPlanes& planes() const noexcept { return planes_; }
  /// The plane whose address is the GID.
  [[nodiscard]] Plane gid_plane() const noexcept { return rounds_.gid_plane(); }
  [[nodiscard]] Progress& progress() noexcept { return progress_; }

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

  /// The lock, and the engine for who holds it: for what must happen in all lanes at once.
  [[nodiscard]] CourteousMutex& mutex() noexcept { return mutex_; }
  [[nodiscard]] engine::Engine& engine() noexcept { return engine_; }

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

  // --- Datagram queue pairs
  /// Overrides `init.mtu` with the largest MTU of RoCEv2 that the planes carry.
  [[nodiscard]] Result<Qpn> create_datagram_qp(engine::DatagramInit init);
  [[nodiscard]] DatagramInfo query_datagram_qp(Qpn qpn);
  void prepare_datagrams(const port::IpAddress& gid, Qpn remote, Duration patience);
  Errc post_datagrams(Qpn qpn, std::span<const DatagramRequest> requests,
                      std::size_t& posted) noexcept;
  Errc close_datagram_qp(Qpn qpn) noexcept;

  // --- Profiles
  /// Sets the profiles that a queue pair gets on its way to INIT.
  void set_profiles(Qpn qpn, const QpProfiles& profiles);
  /// See Peers::update().
  void update_paths(const EvUpdate& update) noexcept;
  /// See Peers::add_states().
  void add_states(ProfileId profile, std::span<EvEntry> entries) noexcept;
  /// As Peers::add_own_states().
  void add_own_states(std::span<EvEntry> entries);

  // --- Memory regions
  /// Registers with the engine and all ports, under a new key or a given one. Throws mrc::Error.
  [[nodiscard]] std::uint32_t register_memory(void* address, std::size_t length, Access access,
                                              PdId pd, std::optional<std::uint32_t> key);
  /// The engine has deregistered the region: returns when no port reads it any more.
  void release_memory(std::uint32_t key) noexcept;

  // --- Administration of planes
  /// The device's own rules are those that change(SteeringRules&) makes of them. When it returns,
  /// nothing leaves in a plane, or on a path, that is out of use.
  template <class F>
  void steer(F&& change) {
    const std::lock_guard lock(mutex_);
    change(steering_.own());
    steered();
  }
  /// The host's rules count, too, from now on, as they are now. As steer().
  void follow(std::shared_ptr<HostRules> host) noexcept;
  /// See Peers::count_denied().
  std::size_t count_denied(std::size_t first, std::size_t most, DeniedCount& count) noexcept {
    const std::lock_guard lock(mutex_);
    return peers_.count_denied(first, most, count);
  }
  [[nodiscard]] PlaneState plane_state(unsigned plane) noexcept;

  // --- Requests to any host
  /// See Device::request_endpoints(). Throws mrc::Error.
  [[nodiscard]] std::vector<EndpointResponse> request_endpoints(
      EndpointOperation operation, std::span<const EndpointRequest> requests, Duration timeout,
      std::uint8_t dscp);

  /// Sends an EV probe on each of up to `most` paths to a peer, from the one with index `first` on,
  /// and a second one where the first has no answer in half of the time. Ends when all are answered
  /// or the time is over; holds the lock for moments only. Denied paths, and those in planes that
  /// are down, are left alone.
  [[nodiscard]] std::vector<PathProbe> probe_paths(PeerId peer, std::size_t first, std::size_t most,
                                                   std::optional<Plane> plane, Duration timeout);

  // --- Faults and statistics
  [[nodiscard]] const Faults& faults() const noexcept { return faults_; }
  void start_faults(port::FaultSchedule schedule);
  /// Adds what this lane has counted, with or without a report on each peer.
  void add_to(DeviceStats& stats, bool peers);

  // --- Reports: those of many things in parts, so that none of the calls
  // holds the lock for long
  /// Places for queue pairs.
  [[nodiscard]] std::size_t qp_places() noexcept {
    const std::lock_guard lock(mutex_);
    return engine_.qp_places();
  }
  /// Some of the queue pairs, from place `at` on, at most `most`. Moves `at` behind the last place
  /// that was looked at: all of them have been told once that is qp_places().
  [[nodiscard]] std::vector<QpReport> queue_pairs(std::size_t& at, std::size_t most = SIZE_MAX);
  /// Nothing if there is no such queue pair.
  [[nodiscard]] std::optional<QpReport> report(Qpn qpn);
  /// Up to `most` peers, from the one at position `first` on.
  [[nodiscard]] std::vector<PeerReport> peers(std::size_t first, std::size_t most);
  /// Up to `most` paths to a peer, from the one with index `first` on.
  [[nodiscard]] std::vector<PathReport> paths(PeerId peer, std::size_t first, std::size_t most);
  /// All paths to the peer of a queue pair.
  [[nodiscard]] std::vector<PathReport> paths(Qpn qpn);

 private:
  [[nodiscard]] std::uint64_t apart(std::uint64_t seed) const noexcept;
  [[nodiscard]] OpenedPlanes open_planes(std::optional<std::uint8_t> slot) const;
  [[nodiscard]] engine::EngineOptions engine_options() const;
  [[nodiscard]] ResolutionOptions resolution_options() const;
  // Queue pairs
  [[nodiscard]] ConnectionInfo info_of(Qpn qpn) const;
  [[nodiscard]] bool asks_for_trims() const noexcept;
  [[nodiscard]] const engine::QueuePairState& in_state(Qpn qpn, QpState state,
                                                       const std::string& doing) const;
  void check_peer(const ConnectionInfo& info, const std::string& doing) const;
  void connect_to(Qpn qpn, const QpChange& change, const std::string& doing);
  void resolve(Qpn qpn, const QpChange& change, const std::string& doing);
  [[nodiscard]] PeerId peer_for(std::unique_lock<CourteousMutex>& lock, Qpn qpn,
                                const ConnectionInfo& info, const std::string& doing);
  // Requests to any host
  [[nodiscard]] bool await_responses(EndpointRequests::Batch& batch, Time end);
  struct OwnProbes;
  void work_on(OwnProbes& probes) noexcept;
  void nap(Time end) const noexcept;
  void steered() noexcept;
  void apply_steering(Time now) noexcept;
  // Reports
  [[nodiscard]] QpReport report_of(const engine::QueuePairState& qp, Time now);
  [[nodiscard]] static std::vector<PathReport> paths_of(const engine::Peer& peer, std::size_t first,
                                                        std::size_t most);
  void to_init(Qpn qpn, const std::optional<QpProfiles>& wanted, const std::string& doing);
  // Profiles
  void enter_init(Qpn qpn, const std::string& doing);
  void release_profiles(Qpn qpn) noexcept;
  [[nodiscard]] PeerProfiles profiles_of(Qpn qpn) const;
  void follow_profiles(Time now) noexcept;
  void report_path_events() noexcept;
  /// Ends the connection of a queue pair with f(qpn), and forgets the peer if it was the last.
  template <class F>
  Errc disconnect(Qpn qpn, F&& f) noexcept;

  const unsigned index_;
  std::uint32_t srqs_ = 0;
  const ForkMark fork_;
  const Config& config_;
  const Log& log_;
  const std::uint64_t guid_;
  PlaneKind& kind_;
  EventQueue<DeviceEvent>& events_;
  Profiles& profiles_;
  EvEvents& ev_events_;
  std::atomic<PlaneMask>& singly_logged_;
  static constexpr unsigned kMostNarrowPathsLogged = 16;
  unsigned narrow_paths_logged_ = 0;  ///< one link that is too narrow has paths to many peers
  OpenedPlanes planes_;
  engine::Engine engine_;
  Faults faults_;
  PeerFilter filter_;
  Steering steering_;
  Peers peers_;
  EndpointRequests endpoint_requests_;
  Connector connector_;
  DatagramRoutes datagram_routes_;
  Rounds rounds_;
  CourteousMutex mutex_;
  Progress progress_;
  /// Profiles of a queue pair.
  struct Chosen {
    QpProfiles profiles;
    bool held = false;  ///< from INIT on
  };
  std::unordered_map<std::uint32_t, Chosen> chosen_;  ///< by QPN
};

}  // namespace mrc::inline v0_1::detail
