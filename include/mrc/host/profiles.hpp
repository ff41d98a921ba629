// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/host/host_rules.hpp"
#include "mrc/host/profile_registry.hpp"

namespace mrc::inline v0_1::detail {

/// A device's profiles for several threads: those that its program makes, and those that hold for
/// all devices of the host. Of two with the same number the program's own counts, which can't be
/// made while queue pairs use the host's.
///
/// Thread contract: any thread. The lock may be taken under a lane's lock; under it nothing else is
/// taken.
class Profiles {
 public:
  /// To be called once, before queue pairs exist: what a registry must know of the ports is known
  /// when they are open.
  void open(const ProfileSurroundings& around) {
    own_.emplace(around);
    host_.emplace(around);
  }
  /// Runs f(registry) with those of the program, under the lock.
  template <class F>
  auto with(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(*own_);
  }
  /// The same for those of the host.
  template <class F>
  auto with_host(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(*host_);
  }

  // --- Changes by the program; as those of ProfileRegistry
  [[nodiscard]] ProfileRegistry::EvChanged change_evs(ProfileId id, const EvProfileChange& change);
  void change_cc(ProfileId id, const CcProfileChange& change);

  // --- The host's
  /// Its rules are others: so are its profiles here. Returns what is to be logged.
  std::vector<std::string> follow(const HostState& host);
  /// What the last follow() could not do, of profiles that queue pairs use: texts.
  [[nodiscard]] std::vector<std::string> not_followed();
  /// Throws mrc::Error if this device can't have profiles of the set that it has to have: all but
  /// those that are as in the set that it follows, and, with `evs_are_own`, those that nobody uses
  /// here and whose EVs its ports can't send, since each process has EVs of its own there. Returns
  /// how many it goes without.
  unsigned check(const ProfileSet& set, bool evs_are_own);

  // --- Queue pairs
  void acquire(const QpProfiles& profiles);
  void release(const QpProfiles& profiles) noexcept;
  /// The table of a profile that is ONLINE; else null.
  [[nodiscard]] EvTablePtr table(ProfileId id) noexcept;
  /// The options of a CC profile that is ONLINE; else those of the device.
  [[nodiscard]] cc::Options cc_options(ProfileId id);

  /// In a forked child: no thread of the parent held the lock.
  [[nodiscard]] bool at_rest() noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }

 private:
  [[nodiscard]] ProfileRegistry& of_evs(ProfileId id) noexcept {
    return own_->has_evs(id) ? *own_ : *host_;
  }
  [[nodiscard]] ProfileRegistry& of_cc(ProfileId id) noexcept {
    return own_->has_cc(id) ? *own_ : *host_;
  }

  std::mutex mutex_;
  std::optional<ProfileRegistry> own_, host_;
  std::uint64_t followed_ = 0;  ///< HostState::serial of what host_ follows
  std::shared_ptr<const ProfileSet> set_;
  std::vector<std::string> not_followed_;
};

}  // namespace mrc::inline v0_1::detail
