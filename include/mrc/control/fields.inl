// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/fields.hpp"

namespace mrc::inline v0_1::control {

bool has_field(const nlohmann::json& json, const char* name,
               bool (nlohmann::json::*is)() const noexcept) {
  const auto field = json.find(name);
  return field != json.end() && ((*field).*is)();
}

nlohmann::json object_of(const std::string& text, int deepest) {
  using Json = nlohmann::json;
  bool deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > deepest;
    return depth <= deepest;
  };
  Json json = Json::parse(text, look, false);
  return json.is_object() && !deep ? json : Json::object();
}

std::uint64_t count_in(const nlohmann::json& object, const char* name) {
  if (has_field(object, name, &nlohmann::json::is_number_unsigned))
    return object[name].get<std::uint64_t>();
  const double value =
      has_field(object, name, &nlohmann::json::is_number) ? object[name].get<double>() : 0;
  return value > 0 && value < 1e19 ? static_cast<std::uint64_t>(value) : 0;
}

std::string text_in(const nlohmann::json& object, const char* name) {
  return has_field(object, name, &nlohmann::json::is_string) ? object[name].get<std::string>()
                                                             : std::string();
}

bool flag_in(const nlohmann::json& object, const char* name, bool otherwise) {
  return has_field(object, name, &nlohmann::json::is_boolean) ? object[name].get<bool>()
                                                              : otherwise;
}

const nlohmann::json& object_in(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  return has_field(object, name, &nlohmann::json::is_object) ? object[name] : kEmpty;
}

const nlohmann::json& list_in(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  return has_field(object, name, &nlohmann::json::is_array) ? object[name] : kEmpty;
}

}  // namespace mrc::inline v0_1::control
