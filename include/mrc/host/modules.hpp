// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mrc/cc/controller.hpp"
#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/profile_types.hpp"
#include "mrc/qp_change.hpp"
#include "mrc/stats.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

class DeviceCore;
class Lane;

/// What a device and its lanes ask of modules. Each enters the functions that make its part
/// (host/modules.inl); what a program lacks is null, and what needs it fails: Errc::unsupported.

/// What a module does in a lane, in each round. Under the lane's lock.
class LaneService {
 public:
  virtual ~LaneService() = default;
  /// A round begins: nothing has been received yet.
  virtual void begin(Time now) noexcept { (void)now; }
  /// Packets have been received.
  virtual void work(Time now) noexcept { (void)now; }
  /// When a round is due at the latest.
  [[nodiscard]] virtual Time next_deadline() const noexcept = 0;
  /// Whether a packet of Engine::early() can be received now, since its sender is a peer.
  [[nodiscard]] virtual bool accepts(Time now, const wire::RxPacket& packet) noexcept {
    (void)now, (void)packet;
    return false;
  }
};

/// Connecting by GID, and traffic with hosts without a connection, in one lane (mrc/resolve.hpp).
/// Under the lane's lock.
class Resolver : public LaneService {
 public:
  /// A queue pair has gone to RTR with this destination. Throws mrc::Error if no plane leads there.
  virtual void start(Time now, Qpn qpn, const Destination& destination) = 0;
  /// It has left RTR and RTS.
  virtual void stop(Qpn qpn) noexcept = 0;
  /// What it is connected to, if that was given by GID.
  [[nodiscard]] virtual std::optional<Destination> destination(Qpn qpn) const = 0;
  /// Why that failed; empty if it did not.
  [[nodiscard]] virtual std::string failure(Qpn qpn) const = 0;
  /// Steering denies other paths than before.
  virtual void deny_paths() noexcept = 0;
  /// Adds what it has counted.
  virtual void add_to(DeviceStats& stats) const = 0;
};

/// Which planes and paths of a lane are out of use beside those of Device::set_plane_enabled():
/// none, unless a module says more (mrc/control.hpp). Under the lane's lock.
class Steering {
 public:
  virtual ~Steering() = default;
  /// It would say something else after refresh(). Data path: once per burst.
  [[nodiscard]] virtual bool stale() const noexcept { return false; }
  /// Takes what is new. True if there was something.
  virtual bool refresh() noexcept { return false; }
  [[nodiscard]] virtual PlaneMask planes_down() const noexcept { return 0; }
  /// Whether a path on that route to a peer is denied.
  [[nodiscard]] virtual bool denies(const PeerRoute& route, const path::PathSpec& path) const {
    (void)route, (void)path;
    return false;
  }
};

/// Administration of a device (mrc/control.hpp): profiles, EV events, rules for planes and paths,
/// control socket and dumps. Any thread; its locks may be taken under a lane's.
class Administration {
 public:
  virtual ~Administration() = default;
  /// The device is complete. Throws mrc::Error.
  virtual void open() = 0;
  /// The device, still complete, is about to go.
  virtual void close() noexcept = 0;
  /// For one lane. Throws std::bad_alloc.
  [[nodiscard]] virtual std::unique_ptr<Steering> make_steering() = 0;

  // --- Profiles
  /// A queue pair begins to use these; they must be ONLINE. Throws mrc::Error.
  virtual void acquire(const QpProfiles& profiles) = 0;
  virtual void release(const QpProfiles& profiles) noexcept = 0;
  /// The table of a profile that is ONLINE; else null.
  [[nodiscard]] virtual EvTablePtr table(ProfileId id) noexcept = 0;
  /// The options of a CC profile that is ONLINE; else those of the device.
  [[nodiscard]] virtual cc::Options cc_options(ProfileId id) = 0;
  /// A lane's steering was refreshed: profiles, and so paths to its peers, may be others. Under the
  /// lane's lock.
  virtual void follow(Lane& lane, Time now) noexcept = 0;

  /// A path of that lane has become ASSUMED_BAD, or GOOD again. Under the lane's lock.
  virtual void on_path_event(Lane& lane, const engine::Peer& peer,
                             const path::PathEvent& event) noexcept = 0;

  /// In a forked child: nothing was being changed, so that it can be destroyed.
  [[nodiscard]] virtual bool at_rest() noexcept = 0;
};

// --- How modules join. Atomic, since a shared object may bring one while devices are open.
/// Makes a kind of planes for a configuration.
using MakePlaneKind = std::unique_ptr<PlaneKind> (*)(const Config&);
/// Packet ports of a fabric; RDMA devices.
extern std::atomic<MakePlaneKind> packet_kind, verbs_kind;
/// Makes a lane's Resolver, which refers to it.
using MakeResolver = std::unique_ptr<Resolver> (*)(Lane&);
extern std::atomic<MakeResolver> resolver_maker;
/// Makes a device's Administration, which refers to it, and is opened later.
using MakeAdministration = std::unique_ptr<Administration> (*)(DeviceCore&);
extern std::atomic<MakeAdministration> administration_maker;
/// Replaces the faults of a device; `source` goes in front of error texts. Throws mrc::Error.
using SetFaults = void (*)(DeviceCore&, std::string_view text, const std::string& source);
extern std::atomic<SetFaults> fault_setter;

/// The kind of planes that a configuration asks for: of a fabric with option fabric, on RDMA
/// devices with option verbs alone, else on UDP sockets. Throws mrc::Error; `unsupported` if the
/// program lacks that kind.
[[nodiscard]] std::unique_ptr<PlaneKind> make_plane_kind(const Config& config);

}  // namespace mrc::inline v0_1::detail
