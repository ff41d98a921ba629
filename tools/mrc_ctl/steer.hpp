// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/control/host_store.hpp"
#include "mrc_ctl/devices.hpp"

/// Commands that take planes and paths out of use, or use them again: in single devices, or in all
/// of the host, those that open later included.
namespace mrc::ctl_tool {

/// Whether the command is for the host as a whole: no devices are selected.
[[nodiscard]] bool is_for_host(const Options& o);

/// deny and allow in one device. Returns its answer.
[[nodiscard]] Json steer(const Options& o, RemoteDevice& device);
/// What deny, allow and denied say of a device, from its answer.
[[nodiscard]] std::string denied_text(const Json& answer);

/// deny, allow and plane for the host: all devices agree, or nothing changes. Returns the exit
/// status.
[[nodiscard]] int steer_host(const Options& o);

/// What the options say of the store: its folder, which root's mrc_ctl makes if nobody has yet.
[[nodiscard]] std::string store_folder_of(const Options& o);
/// Where the options say that the host's devices are.
[[nodiscard]] detail::HostSearch host_search(const Options& o);
/// detail::change_host(), and prints what is to be said of devices.
[[nodiscard]] detail::HostChange change_host(const Options& o, detail::HostStoreWriter& store,
                                             const detail::HostState& wanted);

/// The paths that the command line names, as a device takes them. Throws mrc::Error that names what
/// is wrong.
[[nodiscard]] Json named_paths(const Options& o);

}  // namespace mrc::ctl_tool
