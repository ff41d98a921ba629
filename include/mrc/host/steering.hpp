// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "mrc/api/device_config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/host/profiles.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// Which planes and paths of a lane administrators have taken out of use: those of the device, and
/// of the host. It only knows them; the lane takes planes and paths out of use.
///
/// Thread contract: under the lane's lock.
class Steering {
 public:
  explicit Steering(PlaneKind& kind)
      : kind_(kind), host_rules_(std::make_shared<const HostState>()) {}

  /// The rules of this device alone.
  [[nodiscard]] SteeringRules& own() noexcept { return own_; }
  /// Those of the host count from now on.
  void follow(std::shared_ptr<HostRules> host) noexcept { host_ = std::move(host); }
  /// The host's rules are others than those that refresh() took. Once per burst.
  [[nodiscard]] bool stale() const noexcept {
    return host_ != nullptr && host_->number() != number_;
  }
  /// Takes the host's rules. True if they are others than before.
  bool refresh() noexcept {
    if (host_ == nullptr) return false;
    HostRules::Reading reading = host_->rules();
    number_ = reading.number;
    return std::exchange(host_rules_, std::move(reading.rules)) != host_rules_;
  }

  [[nodiscard]] PlaneMask planes_down() const noexcept {
    return own_.planes_down | host_rules_->steering.planes_down;
  }
  /// Whether a path on that route to a peer is denied.
  [[nodiscard]] bool denies(const PeerRoute& route, const path::PathSpec& path) const {
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

/// Option peers_allowed in a lane: which hosts may connect, and how often others tried.
///
/// Thread contract: refuses() and refused() under the lane's lock; the others any thread. What the
/// constructor takes must outlive it.
class PeerFilter {
 public:
  PeerFilter(const Config& config, const Log& log) : allowed_(config.peers_allowed), log_(log) {}

  /// Nobody is refused: nothing has to be asked.
  [[nodiscard]] bool everybody() const noexcept { return allowed_.everybody(); }

  /// Something came from that host, which is not allowed: counted. A line in the log for the first,
  /// and whenever the count has doubled: floods do not fill the log.
  [[nodiscard]] bool refuses(const port::IpAddress& from) {
    if (allowed_.contains(from)) return false;
    if (std::has_single_bit(++refused_))
      log_.warn("what comes from " + port::format_ip(from) +
                " is dropped: option peers_allowed leaves it out; " + std::to_string(refused_) +
                " such packets until now");
    return true;
  }
  /// How often refuses() was true.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

  /// Throws mrc::Error if a host with that address may not be connected to.
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

/// The file named by option keylog: the tags of all connections, so that tools which see packets
/// can check them. One line per address, `MRC_TAG address QPN tag`: packets to that address and
/// queue pair carry that tag (wire::Tag). Several devices and processes may append to one file.
///
/// Thread contract: one thread at a time.
class KeyLog {
 public:
  /// Nothing is logged if `path` is empty. Opened as open_own_file() does; a new file can be read
  /// by its owner only, and so must be one that is there. Throws mrc::Error that names the file.
  explicit KeyLog(const std::string& path);
  /// Appends the tag of a queue pair that receives at these addresses; nothing if it has none. What
  /// can't be written is lost.
  void add(std::span<const port::PeerAddress> planes, Qpn qpn, std::uint64_t tag) noexcept;
  /// True if there is a file.
  [[nodiscard]] bool open() const noexcept { return file_.open(); }

 private:
  UniqueFd file_;
};

}  // namespace mrc::inline v0_1::detail
