// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/control/profiles.hpp"
#include "mrc/profile_types.hpp"

namespace mrc::inline v0_1::detail {

/// Profiles and rules as JSON, and what devices leave behind (option `dump`, docs/control.md): when
/// they close, when the process exits or dies by a signal, and whenever it gets SIGUSR2.

/// How long a thread that dies, or a process that exits, waits for dumps, in milliseconds. Tests
/// set it, since they may run on a busy machine.
inline std::atomic<int> dump_patience{2000};

/// Something that leaves a dump.
class DumpSource {
 public:
  virtual ~DumpSource() = default;
  /// The file that dumps are appended to.
  [[nodiscard]] virtual const std::string& dump_file() const noexcept = 0;
  /// All that is known, in a line without its end. `why`: the signal's name, "exit" or "closed". It
  /// must not wait for long: a thread that died may hold locks for good.
  [[nodiscard]] virtual std::string dump(std::string_view why) = 0;
  /// Called every two seconds or more often by the thread that makes dumps.
  virtual void look() noexcept = 0;
};

/// Throws mrc::Error that names the file, if nothing can be appended to it.
void check_dump_file(const std::string& file);

/// Dumps of this source are left from now on. With the first one a thread starts, and handlers of
/// SIGUSR2 and of the signals that end a process (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT,
/// SIGTERM) are installed; they only wake the thread, wait for it for two seconds at most, and call
/// the handlers that were there before. Throws mrc::Error.
void add_dump_source(DumpSource& source);
/// No dump of it is being made any more, nor will be. The last one removes the handlers, unless
/// others were installed since. Returns false if its last dump was left when the process exited.
bool remove_dump_source(DumpSource& source) noexcept;
/// Appends a dump to the source's file.
void leave_dump(DumpSource& source, std::string_view why) noexcept;

/// Profiles as JSON, as files have them (docs/profiles.md). Values and functions without state.

/// Lists `format_profiles`, `ev_profiles` and `cc_profiles`.
[[nodiscard]] nlohmann::json to_json(const ProfileSet& set);
/// Throws mrc::Error (invalid_argument) that names the profile and the field that is wrong, unknown
/// fields included: a word that is misspelt must not be taken for an option that was left out.
[[nodiscard]] ProfileSet profiles_from_json(const nlohmann::json& json);

/// The bits of an EV in hexadecimal digits, without the zeros at its end; "0" if all are zero.
[[nodiscard]] std::string to_text(const path::EvValue& value);
/// Throws mrc::Error (invalid_argument).
[[nodiscard]] path::EvValue ev_from_text(std::string_view text);

/// Rules of administrators as JSON (docs/control.md). Values and functions without state.

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
