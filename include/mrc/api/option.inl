// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "mrc/api/device_config.hpp"
#include "mrc/api/option_kind.inl"
#include "mrc/api/option_table.hpp"

namespace mrc::inline v0_1 {

std::string variable_name(const Option& option) {
  std::string name = "MRC_";
  for (const char c : option.name)
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::string allowed_text(const Option& option) {
  std::string text =
      detail::visit_kind([](const auto& o) { return detail::allowed_by(o); }, option.kind->value);
  if (!option.unit.empty()) text.append(" (").append(option.unit).append(")");
  return text;
}

std::string value_text(const Option& option, const Config& config) {
  return detail::visit_kind([&](const auto& o) { return detail::text_of(o, config); },
                            option.kind->value);
}

bool value_allowed(const Option& option, const Config& config) {
  return detail::visit_kind([&](const auto& o) { return detail::holds(o, config); },
                            option.kind->value);
}

Error not_allowed(const std::string& what, std::string_view value, const std::string& allowed) {
  return {Errc::invalid_argument,
          what + ": value '" + std::string(value) + "' is not allowed; allowed: " + allowed};
}

Error value_error(const Option& option, std::string_view value, const std::string& what) {
  if (const auto* text = std::get_if<detail::TextOption>(&option.kind->value))
    return {Errc::invalid_argument, what + ": value '" + std::string(value) + "' is not allowed; " +
                                        text->mistake_in(value)};
  return not_allowed(what, value, allowed_text(option));
}

bool detail::try_assign(const Option& option, Config& config, std::string_view text) {
  return visit_kind([&](const auto& o) { return assign(o, config, text); }, option.kind->value);
}

void assign_option(const Option& option, Config& config, std::string_view text,
                   const std::string& what) {
  if (!detail::try_assign(option, config, text)) throw value_error(option, text, what);
}

}  // namespace mrc::inline v0_1
