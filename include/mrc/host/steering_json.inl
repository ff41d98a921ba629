// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/host/steering_json.hpp"

namespace mrc::inline v0_1::detail {

/// A whole number up to `most`; nothing if the field is missing.
[[nodiscard]] std::optional<std::uint32_t> whole_number(const nlohmann::json& json,
                                                        const char* name, std::uint32_t most) {
  const auto field = json.find(name);
  if (field == json.end()) return std::nullopt;
  if (!field->is_number_unsigned() || field->get<std::uint64_t>() > most)
    throw Error(
        Errc::invalid_argument,
        std::string("field ") + name + " must be a whole number up to " + std::to_string(most));
  return field->get<std::uint32_t>();
}

/// An array of up to kMostDenied elements; null if the field is missing.
[[nodiscard]] const nlohmann::json* array_of(const nlohmann::json& json, const char* name) {
  const auto field = json.find(name);
  if (field == json.end()) return nullptr;
  if (!field->is_array() || field->size() > kMostDenied)
    throw Error(Errc::invalid_argument, std::string("field ") + name + " must be a list of up to " +
                                            std::to_string(kMostDenied) + " elements");
  return &*field;
}

nlohmann::json to_json(const DeniedPaths& denied) {
  nlohmann::json json{{"plane", denied.plane}};
  if (denied.ev) json["ev"] = value(*denied.ev);
  if (denied.t0) json["t0"] = *denied.t0;
  if (denied.t1) json["t1"] = *denied.t1;
  if (!denied.host.empty()) json["host"] = denied.host;
  return json;
}

DeniedPaths denied_from_json(const nlohmann::json& json) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint16_t>::max();
  if (!json.is_object())
    throw Error(Errc::invalid_argument, "denied paths are an object with the field plane");
  DeniedPaths denied;
  const auto plane = whole_number(json, "plane", kMaxPlanes - 1);
  if (!plane) throw Error(Errc::invalid_argument, "field plane is missing");
  denied.plane = static_cast<Plane>(*plane);
  if (const auto ev = whole_number(json, "ev", UINT32_MAX)) denied.ev = Ev{*ev};
  if (const auto t0 = whole_number(json, "t0", kMost)) denied.t0 = *t0;
  if (const auto t1 = whole_number(json, "t1", kMost)) denied.t1 = *t1;
  if (const auto host = json.find("host"); host != json.end()) {
    if (!host->is_string() || host->get_ref<const std::string&>().empty() ||
        host->get_ref<const std::string&>().size() > 64)
      throw Error(Errc::invalid_argument, "field host must be the name of a host");
    denied.host = host->get<std::string>();
  }
  const bool part = denied.t0 || denied.t1 || !denied.host.empty();
  if ((denied.ev && part) || (denied.t1 && !denied.host.empty()))
    throw Error(Errc::invalid_argument,
                "field ev stands alone, and field host alone or with t0, the switch it is at");
  return denied;
}

std::vector<DeniedPaths> denied_list(const nlohmann::json& json, const char* field) {
  std::vector<DeniedPaths> denied;
  if (const nlohmann::json* list = array_of(json, field))
    for (const nlohmann::json& one : *list) denied.push_back(denied_from_json(one));
  return denied;
}

nlohmann::json to_json(const SteeringRules& rules) {
  nlohmann::json planes = nlohmann::json::array(), denied = nlohmann::json::array();
  for (unsigned i = 0; i < kMaxPlanes; ++i)
    if ((rules.planes_down >> i & 1) != 0) planes.push_back(i);
  for (const DeniedPaths& one : rules.denied) denied.push_back(to_json(one));
  return {{"planes_down", std::move(planes)}, {"denied", std::move(denied)}};
}

SteeringRules rules_from_json(const nlohmann::json& json) {
  if (!json.is_object()) throw Error(Errc::invalid_argument, "rules are an object");
  SteeringRules rules;
  if (const nlohmann::json* planes = array_of(json, "planes_down"))
    for (const nlohmann::json& plane : *planes) {
      if (!plane.is_number_unsigned() || plane.get<std::uint64_t>() >= kMaxPlanes)
        throw Error(Errc::invalid_argument, "field planes_down must be a list of planes");
      rules.planes_down |= plane_bit(plane.get<Plane>());
    }
  rules.denied = denied_list(json, "denied");
  return rules;
}

}  // namespace mrc::inline v0_1::detail
