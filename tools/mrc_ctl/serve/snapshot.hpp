// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mrc_ctl/serve/counters.hpp"

/// What the devices of a host do at one moment, as far as they have answered. Devices are other
/// people's programs: what is missing in an answer, or is of another kind, counts as 0 or empty.
namespace mrc::ctl_tool {

using Json = nlohmann::json;

struct PathSnapshot {
  std::uint32_t ev = 0, plane = 0, port_path = 0;
  std::string state;         ///< "good", "skip", "assumed_bad", "denied"
  bool active = false;       ///< no backup
  std::uint64_t rtt_ns = 0;  ///< smoothed round-trip time; 0: unknown
  int route = -1;            ///< index in PeerSnapshot::routes
  Values<std::size(kPathFields)> counters{};

  /// Can carry data, its plane permitting.
  [[nodiscard]] bool usable() const { return active && (state == "good" || state == "skip"); }
};

struct PeerSnapshot {
  std::uint32_t lane = 0, number = 0, queue_pairs = 0, path_count = 0, paths_up = 0;
  std::string addresses;
  std::string from, to;      ///< names in the fabric's description; empty: unknown
  std::uint64_t rtt_ns = 0;  ///< mean of its queue pairs; 0: unknown
  std::vector<std::vector<std::string>> routes;  ///< hosts and switches in order
  std::vector<PathSnapshot> paths;
};

struct PlaneSnapshot {
  std::string address;
  bool up = false, enabled = true;
  Values<std::size(kPlaneFields)> counters{};
};

struct DeviceSnapshot {
  std::string id;
  std::int64_t pid = 0, uid = -1;
  std::string program, host, version;
  double opened = 0;    ///< seconds since 1970
  bool up = false;      ///< it has answered; else the rest is of `seen`, or empty
  std::string problem;  ///< why not
  double seen = 0;      ///< when it answered last, in seconds since 1970; 0: never
  std::uint64_t queue_pairs = 0, memory_regions = 0, completion_queues = 0;
  Values<std::size(kEngineFields)> counters{};
  std::vector<PlaneSnapshot> planes;
  std::vector<PeerSnapshot> peers;
};

/// What is slow and loses nothing, in words.
struct SlowPart {
  std::string what;                ///< "link p1t0-0 - p1t1-1", "plane 1", "path of plane 1 to h1"
  std::string detail;              ///< how it compares with others
  std::vector<std::string> alike;  ///< parts that would explain the same
};

struct HostSnapshot {
  std::string host;
  double time = 0;  ///< seconds since 1970
  bool steer = false;
  std::string fabric;                   ///< name of the description; empty: none
  std::vector<DeviceSnapshot> devices;  ///< by program, pid and id
  std::size_t others = 0;               ///< devices that this user may not ask
  std::vector<SlowPart> slow;
  std::vector<Json> events;  ///< the newest, with "number", "device", "pid", "program"
};

// ---- from answers

[[nodiscard]] PathSnapshot path_of(const Json& report);
[[nodiscard]] PeerSnapshot peer_of(const Json& report);
[[nodiscard]] PlaneSnapshot plane_of(const Json& report);
/// From a greeting: all but what is counted.
void take_hello(DeviceSnapshot& device, const Json& hello);
/// From an answer to `counters`: counters and planes.
void take_counters(DeviceSnapshot& device, const Json& counters);
/// An event, with its plain fields only; nothing nested.
[[nodiscard]] Json event_of(const Json& event, const DeviceSnapshot& device, std::uint64_t number);

// ---- to the page

[[nodiscard]] Json to_json(const SlowPart& part);
/// As /api/snapshot has it (docs/serve.md). Paths are rows, whose columns "path_fields" names.
[[nodiscard]] Json to_json(const HostSnapshot& host);

}  // namespace mrc::ctl_tool
