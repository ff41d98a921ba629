// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"

namespace mrc::inline v0_1 {

/// The options of a device by name. Variables, command-line options, range checks and
/// docs/configuration.md are made from this table; defaults are in Config itself. Options are
/// constants, so any thread may use them.

struct Config;  // config.hpp

struct Option;

namespace detail {
/// The option whose name is closest to `name`, or nullptr when none is close.
[[nodiscard]] const Option* similar_option(std::string_view name);

struct OptionKind;  // the member of Config, its type and its range (config.inl)
/// Sets the option from text; false and no change when that is malformed or out of range.
[[nodiscard]] bool try_assign(const Option& option, Config& config, std::string_view text);
}  // namespace detail

/// One row of the option table. The default is the member's in a fresh Config.
struct Option {
  std::string_view name;           ///< as in Config::set()
  const detail::OptionKind* kind;  ///< type and range
  std::string_view unit;           ///< empty when the value includes it, or has none
  std::string_view group;          ///< heading in the documentation
  std::string_view doc;            ///< one line
};

/// All options, in the order of the documentation.
[[nodiscard]] MRC_API std::span<const Option> options() noexcept;

/// The option of that name ('-' is read as '_'), or nullptr.
[[nodiscard]] MRC_API const Option* find_option(std::string_view name) noexcept;

/// The same, but throws mrc::Error (invalid_argument) that proposes a similar name.
[[nodiscard]] MRC_API const Option& require_option(std::string_view name);

/// The option's environment variable: "MRC_" and the name in capitals.
[[nodiscard]] MRC_API std::string variable_name(const Option& option);

/// What the option may be, in words: "1 .. 1024", "nscc, fixed, none".
[[nodiscard]] MRC_API std::string allowed_text(const Option& option);

/// The option's value in `config`, as text that assign_option() reads back.
[[nodiscard]] MRC_API std::string value_text(const Option& option, const Config& config);

/// Whether the option's value in `config` is inside its range.
[[nodiscard]] MRC_API bool value_allowed(const Option& option, const Config& config);

/// The error for a value that is not allowed. `what` is "option 'paths'" or the variable.
[[nodiscard]] Error not_allowed(const std::string& what, std::string_view value,
                                const std::string& allowed);

/// The error for a value that is not allowed for the option, `what` as above. Where the value has
/// a syntax of its own (faults, fabric, host), it names the exact mistake.
[[nodiscard]] Error value_error(const Option& option, std::string_view value,
                                const std::string& what);

/// Sets the option from text; throws value_error() and leaves `config` unchanged when it is
/// malformed or out of range.
void assign_option(const Option& option, Config& config, std::string_view text,
                   const std::string& what);

/// The option table as Markdown, one table per group: the generated part of
/// docs/configuration.md.
[[nodiscard]] std::string options_markdown();

/// MRC_* variables that are not options. Set-up only; the environment must not change meanwhile.

namespace detail {

/// True for the MRC_* variables of the project's own scripts, tests and fuzzers, which programs
/// under test inherit, and for those of the NCCL plugin and the verbs shim: they are not options,
/// and not reported as unknown.
[[nodiscard]] bool reserved_variable(std::string_view name) noexcept;

}  // namespace detail

/// A warning that names the MRC_* variables that no option reads, such as misspelt ones; empty if
/// there are none.
[[nodiscard]] std::string unknown_variables();

/// unknown_variables() on the first call in this process that finds any, afterwards empty. Any
/// thread.
[[nodiscard]] std::string unknown_variables_once();

/// Whether an option's value comes from its environment variable, for messages: they should name
/// the variable that a user has set. A Config does not record it, so the environment is read again
/// when a message is made; it must not change meanwhile.

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

/// What is wrong with the text of option faults, or nothing: the module's check, null without it
/// (host/modules.inl).
using MistakeIn = std::string (*)(std::string_view text);
extern std::atomic<MistakeIn> mistake_in_faults;

}  // namespace mrc::inline v0_1
