// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc_ctl/devices.hpp"

/// What people read. Each function asks a device and returns its text.
namespace mrc::ctl_tool {

/// All devices, a line each.
[[nodiscard]] std::string list_text(const Found& found);
[[nodiscard]] std::string show_text(RemoteDevice& device);
[[nodiscard]] std::string planes_text(RemoteDevice& device);
[[nodiscard]] std::string queue_pairs_text(RemoteDevice& device);
[[nodiscard]] std::string peers_text(RemoteDevice& device);
/// Those that the options ask for. Without --idle, not those that have carried nothing and are
/// good.
[[nodiscard]] std::string paths_text(RemoteDevice& device, const Options& o);
[[nodiscard]] std::string config_text(RemoteDevice& device);
[[nodiscard]] std::string profiles_text(RemoteDevice& device);
/// Paths of a peer that carry data in turn, or are to: all but backups.
[[nodiscard]] std::uint64_t paths_in_turn(const Json& peer);
/// "up", "down" or "disabled".
[[nodiscard]] std::string plane_state(const Json& plane);
/// "enabled" or "disabled", from a device's list of planes; "?" if it does not say.
[[nodiscard]] std::string enabled_text(const Json& planes, unsigned plane);

/// Whether --plane and --bad leave a path.
[[nodiscard]] bool wants_path(const Options& o, std::uint64_t plane, const std::string& state);
/// What is said where --peer leaves no peer.
[[nodiscard]] std::string no_peers_text(const Options& o);
/// The paths that --peer, --plane and --bad leave: [{"lane", "peer", "addresses", "paths"}].
[[nodiscard]] Json all_paths(RemoteDevice& device, const Options& o = {});
/// Everything that a device tells.
[[nodiscard]] Json dump_of(RemoteDevice& device);

/// "1.2 GB", "512 B": powers of 1000.
[[nodiscard]] std::string amount(double number, const char* unit);
/// Text of a device for a terminal: without control characters.
[[nodiscard]] std::string printable(std::string text);
/// What a device has sent, as text; a field of it, or "-" if it is not there.
[[nodiscard]] std::string value_text(const Json& value);
[[nodiscard]] std::string cell(const Json& object, const char* name);
/// Date and time of day of a time in seconds since 1970.
[[nodiscard]] std::string clock_text(double seconds);
/// Plain ASCII, whatever a device has sent. `indent` -1: one line.
[[nodiscard]] std::string json_text(const Json& json, int indent);

}  // namespace mrc::ctl_tool
