// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "mrc/host/profile_registry.hpp"

namespace mrc::inline v0_1::detail {

/// A device's profiles for several threads: the registry under a lock of its own. The lock may be
/// taken under a lane's lock; under it nothing else is taken.
class Profiles {
 public:
  /// To be called once, before queue pairs exist: what a registry must know of the ports is known
  /// when they are open.
  void open(ProfileSurroundings around) { registry_.emplace(std::move(around)); }
  /// Runs f(registry) under the lock.
  template <class F>
  auto with(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(*registry_);
  }

  /// In a forked child: no thread of the parent held the lock.
  [[nodiscard]] bool at_rest() noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }

 private:
  std::mutex mutex_;
  std::optional<ProfileRegistry> registry_;
};

}  // namespace mrc::inline v0_1::detail
