// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "mrc/core/types.hpp"
#include "mrc/host/host_rules.hpp"
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

}  // namespace mrc::inline v0_1::detail
