// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "mrc/api/device_stats_json.hpp"
#include "mrc/stats.hpp"

/// Statistics as JSON and back: every field under its own name. `nlohmann::json j = stats;` and
/// `j.get<DeviceStats>()` work too. Reading throws nlohmann::json::exception when a field is
/// missing or of another type.
namespace mrc::inline v0_1 {

/// Statistics of a device as an object.
[[nodiscard]] inline nlohmann::json to_json(const DeviceStats& stats) {
  return stats;
}
/// Counters of an engine as an object.
[[nodiscard]] inline nlohmann::json to_json(const EngineStats& stats) {
  return stats;
}
/// One plane as an object.
[[nodiscard]] inline nlohmann::json to_json(const PlaneStats& stats) {
  return stats;
}
/// Counters of a queue pair as an object.
[[nodiscard]] inline nlohmann::json to_json(const QpStats& stats) {
  return stats;
}
/// One path as an object.
[[nodiscard]] inline nlohmann::json to_json(const PathReport& report) {
  return report;
}
/// What is known of a queue pair as an object.
[[nodiscard]] inline nlohmann::json to_json(const QpReport& report) {
  return report;
}
/// Paths as an array of objects.
[[nodiscard]] inline nlohmann::json to_json(std::span<const PathReport> reports) {
  auto array = nlohmann::json::array();
  for (const auto& report : reports) array.push_back(report);
  return array;
}

}  // namespace mrc::inline v0_1
