// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/net/address.hpp"
#include "nccl_plugin/settings/environment.hpp"
#include "nccl_plugin/settings/interfaces.hpp"
#include "nccl_plugin/settings/planes.hpp"

/// What the environment asks of the plugin.
///
/// Of several variables for one thing the most specific one wins: the library's MRC_*, then
/// NCCL_MRC_*, then NCCL_IB_* and other names of NCCL's, then the plugin's defaults.
namespace mrc_nccl {

/// Where listeners take TCP connections.
struct ListenPlace {
  std::optional<mrc::port::IpAddress> ip{};  ///< none: all addresses of this host, both families
  std::uint16_t first_port = 0;              ///< 0: any free port
  std::uint16_t last_port = 0;
};

/// The settings of one initialisation. A plain value.
struct Settings {
  mrc::Config base;                ///< for all devices; device_config() adds what a NIC has
  std::vector<NicPlan> nics;       ///< at least one
  bool merged = true;              ///< one NIC of all planes
  bool early_receives = false;     ///< offer NCCL's optional receive completion
  bool qp_hints = true;            ///< pass NCCL's numbers of peers and flows on
  std::string stats_file;          ///< where counters are written; empty: nowhere
  bool traffic_class_set = false;  ///< by a variable: what NCCL passes does not count
  bool link_speed_set = false;     ///< by MRC_CC_LINK_SPEED
  /// How long a peer's host may be silent until it counts as dead: give_up_time(base). May be
  /// kForEver.
  mrc::Duration peer_timeout{};
  /// How long a queue pair may be silent while the peer's host answers over TCP: peer_timeout at
  /// least. May be kForEver.
  mrc::Duration outage{};
  /// How long a connection that waits hears nothing until it asks for a sign of life: a quarter of
  /// peer_timeout, from 50 ms to 1 s.
  mrc::Duration heartbeat{};
  ListenPlace listen;                 ///< of listeners: MRC_NCCL_LISTEN, MRC_NCCL_PORTS
  std::string planes_by;              ///< for the banner: which variable has chosen the planes
  std::string patience;               ///< for the banner: peer_timeout and what makes it up
  std::vector<std::string> warnings;  ///< for NCCL's log, level WARN
  std::vector<std::string> info;      ///< for NCCL's log: what has no effect, and why
};

/// The plugin's defaults: the library's, with limits for the many connections and registrations of
/// NCCL, and fewer retries.
[[nodiscard]] mrc::Config plugin_defaults();

/// Reads all settings. Throws SettingsError.
[[nodiscard]] Settings read_settings(const Environment& environment,
                                     const std::vector<InterfaceFacts>& interfaces);

/// The configuration of one NIC's device, validated: `base` with its planes, and with their speed
/// where all of them are hardware that tells it. Throws SettingsError.
[[nodiscard]] mrc::Config device_config(const Settings& settings, const NicPlan& nic);

/// What carries the packets of such a device, for the banner: "UDP ports", "RDMA devices", ...
[[nodiscard]] std::string carriers(const mrc::Config& config);

/// Lets a traffic class (0 .. 255, as NCCL_IB_TC and ncclConfig_t have it; -1: none) choose the
/// class of a device's data before it opens: the DSCP is its upper six bits, the ECN bits below do
/// not count. Over UDP planes all data has that class. In a fabric the description gives the
/// classes, and nothing is changed. Returns a warning, or an empty text. `source` names the value
/// in errors. Throws SettingsError for other values, and for the classes of trimmed packets.
std::string apply_traffic_class(mrc::Config& config, int traffic_class, const std::string& source);

}  // namespace mrc_nccl
