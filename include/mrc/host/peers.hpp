// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/exchange.hpp"
#include "mrc/host/cq_events.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1::detail {

/// Option peers_allowed in a lane: which hosts may connect, and how often others tried. refuses()
/// and refused() under the lane's lock; the others any thread.
class PeerFilter {
 public:
  PeerFilter(const Config& config, const Log& log) : allowed_(config.peers_allowed), log_(log) {}

  [[nodiscard]] bool everybody() const noexcept { return allowed_.everybody(); }

  /// Counts what comes from hosts that are not allowed. A line in the log for the first, and
  /// whenever the count has doubled: floods do not fill it.
  [[nodiscard]] bool refuses(const port::IpAddress& from) {
    if (allowed_.contains(from)) return false;
    if (std::has_single_bit(++refused_))
      log_.warn("what comes from " + port::format_ip(from) +
                " is dropped: option peers_allowed leaves it out; " + std::to_string(refused_) +
                " such packets until now");
    return true;
  }
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

  /// Throws mrc::Error unless a host with that address may be connected to.
  void check(const port::IpAddress& ip) const {
    if (!allowed_.contains(ip))
      throw Error(Errc::unreachable,
                  "peer " + port::format_ip(ip) + ": option peers_allowed leaves it out");
  }
  /// The same for all planes of a peer that are known.
  void check(const ConnectionInfo& info) const {
    for (const port::PeerAddress& plane : info.planes)
      if (plane.udp_port != 0) check(plane.ip);
  }

 private:
  const AllowedPeers allowed_;
  const Log& log_;
  std::uint64_t refused_ = 0;
};

/// The file named by option keylog: the tags of all connections, for tools that see packets. One
/// line per address, `MRC_TAG address QPN tag`: packets to that address and queue pair carry that
/// tag (wire::Tag). Several devices and processes may append to one file. One thread at a time.
class KeyLog {
 public:
  /// Nothing is logged if `path` is empty. The file is, or must be, for its owner alone. Throws
  /// mrc::Error that names it.
  explicit KeyLog(const std::string& path);
  /// The tag of a queue pair that receives at these addresses. What can't be written is lost.
  void add(std::span<const port::PeerAddress> planes, Qpn qpn, std::uint64_t tag) noexcept;
  [[nodiscard]] bool open() const noexcept { return file_.open(); }

 private:
  UniqueFd file_;
};

/// A peer's side of a connection, as it says in `info`.
[[nodiscard]] RemoteQp remote_of(const ConnectionInfo& info, PeerId peer) noexcept;

/// Of a peer that is silent, for messages: "no UDP packet of it has arrived: are .. open ..?"
[[nodiscard]] std::string unheard_text(const Config& config);

/// What the profiles of a queue pair mean for the peer that it is connected to.
struct PeerProfiles {
  QpProfiles ids;
  EvTablePtr evs;                 ///< of ids.ev, if there is one
  std::optional<cc::Options> cc;  ///< of ids.cc, if there is one
};

/// What the lanes of a device share. What it refers to must outlive them.
struct LaneSurroundings {
  const Config& config;
  const Log& log;
  std::uint64_t guid;  ///< names the device to its peers
  PlaneKind& kind;
  CqEvents& cq_events;
  EventQueue<DeviceEvent>& events;
  Administration* administration;         ///< null: there is none
  std::atomic<PlaneMask>& singly_logged;  ///< planes that were logged to send packets one by one
};

/// What the parts of a lane share.
struct LaneParts : LaneSurroundings {
  unsigned index;  ///< number of the lane
  OpenedPlanes& planes;
  engine::Engine& engine;
  PeerFilter& filter;
  Steering& steering;
};

/// The remote devices that queue pairs of a lane are connected to: in engine and ports from the
/// first that connects to the last that goes. Another way to it, window, process or profile is
/// another peer: who only claims to be a known device changes nothing for it. Under the lane's
/// lock, except make_candidate() and await_routes().
class Peers {
 public:
  struct Candidate {
    engine::PeerSpec spec;
    std::vector<PeerRoute> routes;  ///< [plane]
    bool slower = false;            ///< PlaneKind::keep_real_header()
    std::string name;               ///< its addresses, for messages
    PeerProfiles profiles;
  };

  struct Known {
    std::uint64_t guid = 0;  ///< ConnectionInfo::device_guid
    std::uint8_t slot = 0;
    std::vector<port::PeerAddress> planes;
    std::vector<std::vector<std::uint8_t>> port_data;
    std::uint64_t receive_window = 0;
    std::uint64_t network_namespace = 0;
    bool foreign = false;
    bool takes_heads = false;  ///< Peers::takes_heads()
    PeerId id{};
    std::string name;  ///< its addresses, for messages
    QpProfiles profiles;
    EvTablePtr evs;  ///< of profiles.ev, as its paths are now
    /// Paths that stay DENIED: EVs that the ports of this lane can't send.
    std::vector<path::PathIndex> not_sendable;

    /// Whether its profile denies the path, whatever steering says.
    [[nodiscard]] bool denies(std::size_t path) const noexcept;
    /// Whether it is that process, whatever the profiles.
    [[nodiscard]] bool is(const ConnectionInfo& info) const noexcept;
  };

  /// Throws mrc::Error if the file of option keylog can't be opened.
  explicit Peers(const LaneParts& parts) : lane_(parts), tags_(parts.config.keylog) {}

  [[nodiscard]] std::vector<Known>& known() noexcept { return known_; }
  [[nodiscard]] const Known* find(PeerId id) const noexcept;
  /// The peer that a ConnectionInfo names, with those profiles, if it is known.
  [[nodiscard]] std::optional<PeerId> find(const ConnectionInfo& info,
                                           const QpProfiles& profiles) const noexcept;
  /// Throws mrc::Error if it cannot be reached, or is not allowed.
  [[nodiscard]] Candidate make_candidate(const ConnectionInfo& info,
                                         const PeerProfiles& profiles) const;
  /// The MTU of a queue pair of that MTU with the one that `info` describes (0 there: not known).
  [[nodiscard]] std::uint32_t agreed_mtu_with(const ConnectionInfo& info,
                                              std::uint32_t own) const noexcept;
  /// Waits up to `patience` until no packets to it are lost for want of a next hop, or logs where.
  void await_routes(const Candidate& candidate, Duration patience) const;
  /// Unless it has become known meanwhile. Throws mrc::Error, and changes nothing, at the limit.
  [[nodiscard]] PeerId add(const ConnectionInfo& info, const Candidate& candidate);
  /// On up to `most` of them, from position `first` on.
  void add_to(std::vector<PeerReport>& reports, std::size_t first = 0,
              std::size_t most = SIZE_MAX) const;
  /// Steering denies other paths than before.
  void deny_paths(Time now) noexcept;
  /// DENIED are the paths that its profile or steering denies; others are not.
  void deny_paths(Time now, const Known& known);
  /// How it is reached with its EV profile, or without.
  [[nodiscard]] PeerRoute route_to(const Known& known, Plane plane) const;
  /// Logs what the port notes about the peer.
  void add_to_port(PeerId peer, Plane plane, const PeerRoute& route);
  /// Removes a peer without queue pairs, since it may come back with other addresses.
  void forget_unused(PeerId peer) noexcept;
  void log_tags(const engine::QueuePairState& qp, const ConnectionInfo& peer) noexcept;
  /// Why a queue pair is in ERR, with its peer, retries and path states; empty if it is not.
  [[nodiscard]] std::string error_text(const engine::QueuePairState& qp) const;
  /// Logs planes towards a peer that carry no packets of full size any more, or do so again.
  void report_narrow(const engine::Peer& peer, PlaneMask changed) const;
  /// The same of a path, while others of its plane carry them.
  void report_narrow_path(const engine::Peer& peer, path::PathIndex path) const;
  /// Logs planes in which packets leave one by one, since bursts towards a peer vanish.
  void report_singly(const engine::Peer& peer, PlaneMask planes) const;

 private:
  [[nodiscard]] static std::string planes_text(PlaneMask planes);
  /// May packets from it leave the payload out of the iCRC? It has told the same network namespace
  /// as this side, and so finds the same.
  [[nodiscard]] bool takes_heads(const ConnectionInfo& info) const noexcept;
  void check_loopback(const ConnectionInfo& info, Plane plane) const;
  [[nodiscard]] std::size_t add_profile(Candidate& c, const ConnectionInfo& info) const;

  const LaneParts lane_;
  KeyLog tags_;
  std::vector<Known> known_;
  bool noted_slower_ = false;
};

/// The attributes that a queue pair may have with option `strict` (docs/extensions.md).
[[nodiscard]] inline QpAttributes strict_attributes(QpAttributes attributes) noexcept {
  attributes.rc = false;
  // What is no MTU at all is left to the range check.
  if (is_mtu(attributes.mtu)) attributes.mtu = mrc_mtu(attributes.mtu);
  return attributes;
}

/// Removes extensions from connection data that is sent or received with option `strict`. Slots and
/// receive windows stay: no packet is different by them.
[[nodiscard]] inline ConnectionInfo strict_info(ConnectionInfo info) noexcept {
  info.foreign = true;
  info.tag = 0;
  info.network_namespace = 0;
  info.solicited = false;
  info.parts = false;
  info.rc = false;
  info.max_rd_atomic_dest = 0;
  info.mtu_multiples = false;
  info.mtu = mrc_mtu(info.mtu);
  return info;
}

/// The number by which a device names the shared receive queue `srq` of a lane's engine: the top 8
/// bits are the lane, since each engine counts its own.
[[nodiscard]] constexpr SrqId device_srq(unsigned lane, SrqId srq) noexcept {
  return SrqId{lane << 24 | static_cast<std::uint32_t>(srq)};
}
static_assert(kMaxLanes <= 1u << 8);

}  // namespace mrc::inline v0_1::detail
