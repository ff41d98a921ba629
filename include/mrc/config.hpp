// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "mrc/config/check.hpp"
#include "mrc/config/config.hpp"
#include "mrc/config/environment.hpp"
#include "mrc/config/option_table.hpp"

/// Configuration of a device: struct Config (config/config.hpp), its table of options
/// (config/option_table.hpp), and here the way in by name.
namespace mrc::inline v0_1 {

inline void Config::set(std::string_view name, std::string_view value) {
  const Option& option = require_option(name);
  assign_option(option, *this, value, "option '" + std::string(option.name) + "'");
}

inline std::string Config::get(std::string_view name) const {
  return value_text(require_option(name), *this);
}

/// Sets an option from "name=value", as `--option` of programs takes it. Throws like Config::set.
inline void set_option(Config& config, std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos)
    throw Error(Errc::invalid_argument, "option '" + std::string(assignment) +
                                            "': no value; write " + std::string(assignment) +
                                            "=VALUE");
  config.set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

}  // namespace mrc::inline v0_1
