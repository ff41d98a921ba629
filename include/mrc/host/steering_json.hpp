// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "mrc/api/profile_types.hpp"
#include "mrc/host/host_rules.hpp"

/// Rules of administrators as JSON (docs/control.md). Values and functions without state.
namespace mrc::inline v0_1::detail {

/// Fields `plane`, and `ev`, or `t0` and `t1`, or `host`.
[[nodiscard]] nlohmann::json to_json(const DeniedPaths& denied);
/// Throws mrc::Error (invalid_argument) that names the field that is wrong. Others are ignored.
[[nodiscard]] DeniedPaths denied_from_json(const nlohmann::json& json);

/// The list in a field; empty if it is missing. Throws as denied_from_json().
[[nodiscard]] std::vector<DeniedPaths> denied_list(const nlohmann::json& json, const char* field);

/// Fields `planes_down` and `denied`.
[[nodiscard]] nlohmann::json to_json(const SteeringRules& rules);
/// Throws as denied_from_json().
[[nodiscard]] SteeringRules rules_from_json(const nlohmann::json& json);

}  // namespace mrc::inline v0_1::detail
