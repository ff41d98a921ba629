// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "mrc/control/remote_device.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/time.hpp"
#include "mrc/host/host_store.hpp"

/// How a controller, be it mrc_ctl or a program with mrc_ctl.h, changes what holds for all devices
/// of a host (docs/control.md).
namespace mrc::inline v0_1::detail {

/// The devices of the host, in these folders, and those that do not answer within `patience`.
[[nodiscard]] control::Found devices_of_host(const std::vector<std::string>& folders,
                                             Duration patience);

/// What has come of a change.
struct HostChange {
  /// Devices that do what the host's rules say, and what they answered to `host_changed`.
  std::vector<std::pair<control::RemoteDevice*, nlohmann::json>> confirmed;
  /// What is to be said of those that have not confirmed. They read the rules before they send.
  std::vector<std::string> unconfirmed;
  /// Devices to which a part of the rules means nothing.
  std::vector<control::RemoteDevice*> unknowing;
  std::uint64_t serial = 0;  ///< of what was proposed
};

/// Asks the devices of this user and of root whether they can do what `wanted` says, which is
/// proposed in the store. Each has `patience` for an answer. Throws mrc::Error if a device refuses
/// (with its error: in_use, unsupported, …) or one that was there does not answer. Nothing changes.
[[nodiscard]] HostChange ask_devices(HostStoreWriter& store, control::Found& found,
                                     const HostState& wanted, Duration patience);

/// The same, then it is in force in the store, and all devices are told. What throws has changed
/// nothing anywhere.
[[nodiscard]] HostChange change_host(HostStoreWriter& store, control::Found& found,
                                     const HostState& wanted, Duration patience);

/// The states of the entries of one of the host's EV profiles over all devices that have it: what
/// they agree on, or UNKNOWN. `info` has the entries as the controller wrote them.
void merge_states(ProfileId id, EvProfileInfo& info, control::Found& found, Duration patience);

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/impl/host_change.ipp"
#endif
