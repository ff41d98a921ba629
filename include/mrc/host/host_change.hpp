// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "mrc/api/profile_types.hpp"
#include "mrc/control/client.hpp"
#include "mrc/core/types.hpp"
#include "mrc/host/host_store.hpp"

/// How a controller, be it mrc_ctl or a program with mrc_ctl.h, changes what holds for all devices
/// of a host (docs/control.md).
namespace mrc::inline v0_1::detail {

/// How long devices have for an answer, unless something else is said; and those of other users at
/// most, for all that they say: anybody can make some.
inline constexpr Duration kAnswerPatience = std::chrono::seconds(2);

/// Where and how patiently devices are looked for.
struct HostSearch {
  std::vector<std::string> folders;             ///< of control sockets
  Duration greeting = std::chrono::seconds(1);  ///< for all of them to say who they are
  Duration answer = kAnswerPatience;            ///< for all of them to answer a question
};

/// The devices of the host, and those that do not say who they are in time; of sockets that are not
/// in `seen`, which has them afterwards. `elsewhere`: gets the names of this user's and root's
/// devices in other network namespaces.
[[nodiscard]] control::Found devices_of_host(const HostSearch& search,
                                             std::vector<control::SocketName>& seen,
                                             std::vector<std::string>* elsewhere = nullptr);

/// What has come of a change.
struct HostChange {
  std::vector<std::unique_ptr<control::RemoteDevice>> devices;  ///< those that the next ones name
  /// Devices that do what the host's rules say, and what they answered to `host_changed`.
  std::vector<std::pair<control::RemoteDevice*, nlohmann::json>> confirmed;
  /// What is to be said of those of this user and of root that have not confirmed.
  std::vector<std::string> unconfirmed;
  /// The same of other users': anybody can make some, so whether the change is whole does not
  /// depend on them.
  std::vector<std::string> others_unconfirmed;
  /// Devices to which a part of the rules means nothing.
  std::vector<control::RemoteDevice*> unknowing;
  /// Rules that are not in force yet and mean nothing to any device of the host. None if no device
  /// of this user or root has answered, or one is silent, to which they may mean something.
  SteeringRules without_effect;
  /// Devices of this user and of root in other network namespaces.
  std::vector<std::string> elsewhere;
  std::uint64_t serial = 0;               ///< of what was proposed
  std::vector<control::SocketName> seen;  ///< sockets that were found
};

/// Asks the devices of this user and of root whether they can do what `wanted` says, which is
/// proposed in the store. Those that end meanwhile are left out. Throws mrc::Error if a device
/// refuses (with its error: in_use, unsupported, …) or one that has greeted does not answer.
/// Nothing changes.
[[nodiscard]] HostChange ask_devices(HostStoreWriter& store, const HostState& wanted,
                                     const HostSearch& search);

/// What was proposed is in force in the store from now on, and all devices are told, at once,
/// those that have opened meanwhile included. What throws has changed nothing anywhere.
void put_in_force(HostStoreWriter& store, HostChange& change, const HostSearch& search);

/// ask_devices(), then put_in_force().
[[nodiscard]] HostChange change_host(HostStoreWriter& store, const HostState& wanted,
                                     const HostSearch& search);

/// The states of the entries of one of the host's EV profiles over all devices whose queue pairs
/// use it: what they agree on, or UNKNOWN. `info` has the entries as the controller wrote them.
void merge_states(ProfileId id, EvProfileInfo& info, const HostSearch& search);

}  // namespace mrc::inline v0_1::detail
