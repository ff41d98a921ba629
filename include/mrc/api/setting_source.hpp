// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "mrc/core/error.hpp"

/// Whether an option's value comes from its environment variable, for messages: they should name
/// the variable that a user has set. A Config does not record it, so the environment is read again
/// when a message is made; it must not change meanwhile.
namespace mrc::inline v0_1 {

struct Config;  // api/device_config.hpp

namespace detail {

/// "option 'paths'", or "option 'paths' (environment variable MRC_PATHS)" if that is the source.
[[nodiscard]] std::string setting_name(std::string_view name, const Config& config);

/// Throws `error` again. For each of the options `names` that the environment has set, the text
/// gets the variable, its value and what is allowed; not where the process lacks files or memory.
/// To be called inside a handler of `error`.
[[noreturn]] void throw_naming_variables(const Config& config,
                                         std::initializer_list<std::string_view> names,
                                         const Error& error);

/// Runs `open`, which depends on the options `names`. Extends an Error that it throws, as
/// throw_naming_variables() does.
template <class Open>
void naming_variables(const Config& config, std::initializer_list<std::string_view> names,
                      Open&& open) {
  try {
    open();
  } catch (const Error& error) {
    throw_naming_variables(config, names, error);
  }
}

}  // namespace detail

}  // namespace mrc::inline v0_1
