// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/api/profile_types.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/host/profile_set.hpp"

namespace mrc::inline v0_1::detail {

/// What administrators have said of planes and paths.
struct SteeringRules {
  PlaneMask planes_down = 0;        ///< planes that are out of use
  std::vector<DeniedPaths> denied;  ///< paths that are out of use

  friend bool operator==(const SteeringRules&, const SteeringRules&) = default;
};

/// Rules that a host or a device can have: each path is compared with each of them, under a lane's
/// lock.
inline constexpr std::size_t kMostDenied = 256;
/// Throws mrc::Error (no_resources) if there are more.
inline void check_size(const SteeringRules& rules) {
  if (rules.denied.size() > kMostDenied)
    throw Error(Errc::no_resources, "more than " + std::to_string(kMostDenied) +
                                        " rules deny paths; deny whole switches, or allow some");
}

/// Adds those that are not there yet.
inline void add_denied(SteeringRules& rules, std::span<const DeniedPaths> denied) {
  for (const DeniedPaths& one : denied)
    if (std::find(rules.denied.begin(), rules.denied.end(), one) == rules.denied.end())
      rules.denied.push_back(one);
}
/// Those of `rules` that `others` does not have.
[[nodiscard]] inline SteeringRules without(SteeringRules rules, const SteeringRules& others) {
  rules.planes_down &= ~others.planes_down;
  std::erase_if(rules.denied, [&others](const DeniedPaths& one) {
    return std::find(others.denied.begin(), others.denied.end(), one) != others.denied.end();
  });
  return rules;
}
/// Removes them. Throws mrc::Error (not_found), and changes nothing, if one is not there.
inline void remove_denied(SteeringRules& rules, std::span<const DeniedPaths> denied) {
  SteeringRules left = rules;
  for (const DeniedPaths& one : denied)
    if (std::erase(left.denied, one) == 0)
      throw Error(Errc::not_found, "no rule denies exactly these paths: see the rules in force");
  rules = std::move(left);
}

/// What holds for all devices of a host (host/host_store.hpp).
struct HostState {
  SteeringRules steering{};  ///< planes and paths
  /// Never null.
  std::shared_ptr<const ProfileSet> profiles = std::make_shared<const ProfileSet>();
  std::uint64_t serial = 0;  ///< random; another one whenever something was changed. 0: never
};

/// That, as a device sees it: HostStore sets it, lanes read it.
///
/// Thread contract: any thread. number() is data path, and reads memory of this process alone.
class HostRules {
 public:
  HostRules() = default;
  HostRules(const HostRules&) = delete;
  HostRules& operator=(const HostRules&) = delete;

  /// Another one whenever the rules have been set.
  [[nodiscard]] std::uint64_t number() const noexcept {
    return number_.load(std::memory_order_acquire);
  }
  /// The rules in force, and number() of these.
  struct Reading {
    std::shared_ptr<const HostState> rules;  ///< never null
    std::uint64_t number = 0;
  };
  [[nodiscard]] Reading rules() const noexcept {
    const std::lock_guard lock(mutex_);
    return {rules_, number()};
  }
  /// In a forked child: no thread was at work with it.
  [[nodiscard]] bool at_rest() const noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }

 protected:
  /// `rules` is not null.
  void set(std::shared_ptr<const HostState> rules) noexcept {
    const std::lock_guard lock(mutex_);
    rules_.swap(rules);
    number_.fetch_add(1, std::memory_order_release);
  }

 private:
  mutable std::mutex mutex_;  ///< leaf; of rules_
  std::shared_ptr<const HostState> rules_ = std::make_shared<const HostState>();
  std::atomic<std::uint64_t> number_{0};
};

}  // namespace mrc::inline v0_1::detail
