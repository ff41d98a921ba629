// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/settings.hpp"

#include <algorithm>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "nccl_plugin/settings/timeouts.hpp"
#include "nccl_plugin/settings/variables.hpp"

namespace mrc_nccl {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMerge = "MRC_NCCL_MERGE";
constexpr const char* kListen = "MRC_NCCL_LISTEN";
constexpr const char* kPorts = "MRC_NCCL_PORTS";
constexpr const char* kOutage = "MRC_NCCL_OUTAGE";
constexpr const char* kMergeLevel = "NCCL_NET_MERGE_LEVEL";

const std::vector<std::string> kSwitch{"off|0", "on|1"};

bool read_switch(const Environment& environment, const char* name, bool otherwise) {
  const auto choice = environment.choice(name, kSwitch);
  return choice ? *choice == 1 : otherwise;
}

/// MRC_NCCL_MERGE, or what NCCL's own level implies.
bool read_merge(const Environment& environment) {
  const auto merge = environment.choice(kMerge, {"all|1|on", "none|0|off"});
  const auto level = environment.choice(
      kMergeLevel, {"LOC", "PORT", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"});
  return merge ? *merge == 0 : level != std::size_t{0};
}

/// Where planes come from: the variables that say so, the most specific first.
enum class Source { fabric, verbs, planes, interfaces };

Source plane_source(const Environment& environment) {
  if (environment.has("MRC_FABRIC")) return Source::fabric;
  if (environment.has("MRC_VERBS")) return Source::verbs;
  return environment.has("MRC_PLANES") ? Source::planes : Source::interfaces;
}

/// What NCCL's variables for interfaces have no say in.
void note_unused(const Environment& environment, const char* winner, Settings& settings) {
  for (const char* name : {"NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY"})
    if (environment.has(name))
      settings.info.push_back(std::string(name) + " chooses no planes, since " + winner +
                              " is set");
}

std::string chosen_by(Source source, const InterfaceFilter& filter) {
  if (source == Source::verbs) return "MRC_VERBS";
  if (source == Source::fabric) return "MRC_FABRIC";
  if (source == Source::planes) return "MRC_PLANES";
  return filter.text.empty() ? "default" : "NCCL_SOCKET_IFNAME=" + filter.text;
}

void warn_of_speeds(const std::vector<PlaneFacts>& planes, std::vector<std::string>& warnings) {
  int slowest = 0, fastest = 0;
  for (const PlaneFacts& plane : planes) {
    if (plane.speed_mbps <= 0) continue;
    fastest = std::max(fastest, plane.speed_mbps);
    slowest = slowest == 0 ? plane.speed_mbps : std::min(slowest, plane.speed_mbps);
  }
  if (fastest >= 4 * slowest && slowest > 0)
    warnings.push_back("planes of very different speed form one NIC: " + planes_text(planes) +
                       "; choose those of one kind with NCCL_SOCKET_IFNAME or MRC_PLANES");
}

/// Reads base and NICs. Planes chosen by interface are part of the library's defaults, since it
/// checks other options against their number.
void read_planes(const Environment& environment, const std::vector<InterfaceFacts>& interfaces,
                 mrc::Config defaults, Settings& settings) {
  const Source source = plane_source(environment);
  const InterfaceFilter filter = read_filter(environment);
  const Family family = read_family(environment);
  settings.merged = read_merge(environment);
  std::vector<PlaneFacts> planes;
  if (source == Source::interfaces) {
    planes = choose_planes(filter, family, interfaces, settings.warnings);
    defaults.planes.clear();
    for (const PlaneFacts& plane : planes) defaults.planes.push_back(plane.address);
  }
  settings.base = environment.library_config(defaults);
  if (source == Source::fabric || source == Source::verbs) {
    const char* const variable = source == Source::fabric ? "MRC_FABRIC" : "MRC_VERBS";
    if (!settings.merged && environment.has(kMerge))
      throw not_allowed(kMerge, environment.find(kMerge).value_or(""),
                        std::string("all, since the planes of ") + variable + " form one NIC");
    settings.merged = true;
    note_unused(environment, variable, settings);
    planes = source == Source::fabric ? fabric_planes(settings.base, interfaces)
                                      : verbs_planes(settings.base, interfaces);
  } else if (source == Source::planes) {
    note_unused(environment, "MRC_PLANES", settings);
    planes = find_planes(settings.base.plane_list(), interfaces);
  }
  settings.nics = make_nics(planes, settings.merged);
  if (!settings.merged && !environment.has(kMerge))
    settings.info.push_back(std::string(kMergeLevel) + "=LOC: one NIC per plane, as with " +
                            kMerge + "=none");
  if (settings.merged) warn_of_speeds(planes, settings.warnings);
  settings.planes_by = chosen_by(source, filter);
}

void read_traffic_class(const Environment& environment, mrc::Config& defaults, Settings& settings) {
  const auto traffic_class = environment.integer("NCCL_IB_TC", -1, 255, "-1: not set");
  settings.traffic_class_set = environment.has("MRC_DSCP_NO_TRIM");
  if (!traffic_class || *traffic_class < 0) return;
  settings.traffic_class_set = true;
  mrc::Config probe = defaults;  // which knows whether there is a fabric
  probe.fabric = environment.find("MRC_FABRIC").value_or("");
  const std::string warning = apply_traffic_class(probe, *traffic_class, "NCCL_IB_TC");
  if (!warning.empty()) settings.warnings.push_back(warning);
  defaults.expert.dscp_no_trim = probe.expert.dscp_no_trim;
}

/// NCCL calls the plugin only while it waits for something itself. In between, helper threads
/// answer its peers.
void keep_helper(Settings& settings) {
  if (settings.base.helper) return;
  settings.base.helper = true;
  settings.warnings.push_back(
      "MRC_HELPER=off has no effect: NCCL does not call while it waits for nothing, when its peers "
      "may wait for answers");
}

mrc::Duration read_outage(const Environment& environment) {
  constexpr mrc::Duration kUsual = 60s, kMost = 24h;
  const auto text = environment.find(kOutage);
  if (!text) return kUsual;
  if (*text == "forever") return kForEver;
  const auto time = mrc::parse_duration(*text);
  if (!time || *time < mrc::Duration(0) || *time > kMost)
    throw not_allowed(kOutage, *text, "0s .. 24h, such as 60s, or forever");
  return *time;
}

ListenPlace read_listen_place(const Environment& environment) {
  ListenPlace place;
  if (const auto ip = environment.find(kListen)) {
    try {
      place.ip = mrc::port::parse_ip(*ip);
    } catch (const mrc::Error&) {
      throw not_allowed(kListen, *ip, "an IP address of this host");
    }
  }
  const auto ports = environment.find(kPorts);
  if (!ports) return place;
  const auto dash = ports->find('-');
  const auto first = mrc::parse_integer<std::uint16_t>(ports->substr(0, dash));
  const auto last = dash == std::string::npos
                        ? first
                        : mrc::parse_integer<std::uint16_t>(ports->substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first)
    throw not_allowed(kPorts, *ports, "a port or a range of 1 .. 65535, such as 50000-50999");
  place.first_port = *first;
  place.last_port = *last;
  return place;
}

void note_times(const Environment& environment, Settings& settings) {
  const mrc::Config& base = settings.base;
  settings.peer_timeout = give_up_time(base);
  settings.outage = std::max(read_outage(environment), settings.peer_timeout);
  settings.heartbeat =
      std::clamp<mrc::Duration>(settings.peer_timeout / 4, mrc::Duration(50ms), mrc::Duration(1s));
  const std::string when =
      settings.peer_timeout == kForEver
          ? "a silent peer never counts as dead"
          : "a silent peer counts as dead after " + duration_text(settings.peer_timeout) +
                (settings.outage == kForEver ? ", and never"
                                             : ", or " + duration_text(settings.outage)) +
                " while its host answers";
  settings.patience = when + " (timeout " + std::to_string(base.timeout) + ", " +
                      std::to_string(base.retry_linear) + " linear and " +
                      std::to_string(base.retry_exponential) + " doubling retries)";
  if (settings.peer_timeout < mrc::Duration(100ms))
    settings.warnings.push_back("connections fail after " + duration_text(settings.peer_timeout) +
                                " without an answer, which a busy host may take; a larger "
                                "NCCL_MRC_TIMEOUT or NCCL_MRC_RETRY_CNT_EXP makes that longer");
}

void note_without_effect(const Environment& environment, Settings& settings) {
  if (environment.has("NCCL_IB_HCA"))
    settings.info.push_back(
        "NCCL_IB_HCA has no effect on planes, which are network interfaces; choose them with "
        "NCCL_SOCKET_IFNAME or MRC_PLANES");
  for (const char* name : {"NCCL_MRC_CC_INIT_RATE", "NCCL_MRC_CC_MIN_RATE", "NCCL_MRC_CC_MAX_RATE"})
    if (environment.has(name)) settings.info.push_back(std::string(name) + " has no effect");
}

}  // namespace

mrc::Config plugin_defaults() {
  mrc::Config config;
  config.retry_exponential = kRetryExponential;
  // A rank has a connection per channel, direction and peer, and NCCL registers every user buffer.
  // With these limits a device opens with 6.0 MB of heap for each lane instead of 2.9, 2.6 MB of it
  // resident instead of 2.4; the WriteImm tables of a queue pair have 4 KiB instead of 2.
  config.max_qps = 16384;
  config.max_cqs = 16384;
  config.max_mrs = 65536;
  config.max_peers = 4096;
  // 32 requests of 8 receives each may be in flight on a connection.
  config.max_wimm = config.max_wimm_dest = 256;
  return config;
}

Settings read_settings(const Environment& environment,
                       const std::vector<InterfaceFacts>& interfaces) {
  Settings settings;
  settings.warnings = unknown_variables(environment);
  const std::string unknown = environment.unknown_to_library();
  if (!unknown.empty()) settings.warnings.push_back(unknown);

  mrc::Config defaults = plugin_defaults();
  read_timeouts(environment, defaults, settings.warnings);
  read_traffic_class(environment, defaults, settings);
  read_planes(environment, interfaces, defaults, settings);
  keep_helper(settings);
  settings.link_speed_set = environment.has("MRC_CC_LINK_SPEED");
  settings.early_receives = read_switch(environment, "MRC_NCCL_EARLY_RECEIVES", false);
  settings.qp_hints = read_switch(environment, "NCCL_MRC_QP_HINT_ENABLE", true);
  settings.listen = read_listen_place(environment);
  settings.stats_file = environment.find_file("NCCL_MRC_STATS").value_or("");
  note_times(environment, settings);
  note_without_effect(environment, settings);
  for (const NicPlan& nic : settings.nics) (void)device_config(settings, nic);
  return settings;
}

std::string carriers(const mrc::Config& config) {
  const std::string devices = config.verbs.empty() ? "" : "RDMA devices";
  if (config.fabric.empty()) return devices.empty() ? "UDP ports" : devices;
  return "packets of a fabric" + (devices.empty() ? "" : " over " + devices);
}

mrc::Config device_config(const Settings& settings, const NicPlan& nic) {
  mrc::Config config = settings.base;
  if (config.fabric.empty()) {
    if (!settings.merged) config.planes = nic.planes;
    if (nic.speed_known && !settings.link_speed_set) config.cc_link_speed = nic.speed_mbps / 1000.0;
  }
  try {
    config.validate();
  } catch (const mrc::Error& error) {
    throw SettingsError(error.what());
  }
  return config;
}

std::string apply_traffic_class(mrc::Config& config, int traffic_class, const std::string& source) {
  if (traffic_class == -1) return {};
  const std::string value = std::to_string(traffic_class);
  if (traffic_class < 0 || traffic_class > 255)
    throw SettingsError(source + ": value '" + value +
                        "' is not allowed; allowed: -1 .. 255 (-1: not set)");
  if (!config.fabric.empty())
    return source + "=" + value + " has no effect: the fabric's description gives the classes";
  const auto dscp = static_cast<std::uint8_t>(traffic_class >> 2);
  if (dscp == config.expert.dscp_trimmed || dscp == config.expert.dscp_trimmed_last_hop)
    throw SettingsError(source + ": value '" + value +
                        "' is not allowed; allowed: classes whose DSCP (value / 4) is not that of "
                        "trimmed packets (MRC_DSCP_TRIMMED, MRC_DSCP_TRIMMED_LAST_HOP): not " +
                        std::to_string(dscp));
  config.expert.dscp_no_trim = dscp;
  return {};
}

}  // namespace mrc_nccl
