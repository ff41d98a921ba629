// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include "mrc/api/device_config.hpp"
#include "mrc/api/option_table.hpp"
#include "mrc/api/setting_source.hpp"

namespace mrc::inline v0_1::detail {

/// True if the option's variable is set and gives the value that the option has in `config`.
[[nodiscard]] bool set_by_environment(const Option& option, const Config& config) {
  const char* text = std::getenv(variable_name(option).c_str());
  if (text == nullptr || *text == '\0') return false;
  Config same;
  return try_assign(option, same, text) && value_text(option, same) == value_text(option, config);
}

std::string setting_name(std::string_view name, const Config& config) {
  const Option& option = *find_option(name);
  std::string text = "option '" + std::string(name) + "'";
  if (!set_by_environment(option, config)) return text;
  return text + " (environment variable " + variable_name(option) + ")";
}

void throw_naming_variables(const Config& config, std::initializer_list<std::string_view> names,
                            const Error& error) {
  for (const std::errc lacks : {std::errc::too_many_files_open, std::errc::not_enough_memory,
                                std::errc::too_many_files_open_in_system})
    if (error.code() == lacks) throw;
  std::string note;
  for (const std::string_view name : names) {
    const Option& option = *find_option(name);
    if (set_by_environment(option, config))
      note += "; environment variable " + variable_name(option) + ": value '" +
              value_text(option, config) + "', allowed: " + allowed_text(option);
  }
  if (note.empty()) throw;
  std::string text = error.what();
  const std::string reason = ": " + error.code().message();  // std::system_error adds it again
  if (text.ends_with(reason)) text.resize(text.size() - reason.size());
  throw Error(error.code(), text + note);
}

}  // namespace mrc::inline v0_1::detail
