// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "mrc/api/profile_types.hpp"
#include "mrc/host/profile_set.hpp"

/// Profiles as JSON, as files have them (docs/profiles.md). Values and functions without state.
namespace mrc::inline v0_1::detail {

/// Lists `format_profiles`, `ev_profiles` and `cc_profiles`.
[[nodiscard]] nlohmann::json to_json(const ProfileSet& set);
/// Throws mrc::Error (invalid_argument) that names the profile and the field that is wrong, unknown
/// fields included: a word that is misspelt must not be taken for an option that was left out.
[[nodiscard]] ProfileSet profiles_from_json(const nlohmann::json& json);

/// The bits of an EV in hexadecimal digits, without the zeros at its end; "0" if all are zero.
[[nodiscard]] std::string to_text(const path::EvValue& value);
/// Throws mrc::Error (invalid_argument).
[[nodiscard]] path::EvValue ev_from_text(std::string_view text);

}  // namespace mrc::inline v0_1::detail
