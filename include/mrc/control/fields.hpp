// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

/// What others send, read without trust: nothing here throws but std::bad_alloc.
namespace mrc::inline v0_1::control {

/// The object that a text is; an empty one if it is no JSON object, or one that is nested deeper
/// than any answer is: copying and writing it goes level by level.
[[nodiscard]] nlohmann::json object_of(const std::string& text, int deepest = 16);

/// Whether `json` is an object with that field, of the kind that `is` asks for:
/// `&nlohmann::json::is_string`, say.
[[nodiscard]] bool has_field(const nlohmann::json& json, const char* name,
                             bool (nlohmann::json::*is)() const noexcept);

/// A field of an object; 0 if there is none, or it is no number that fits.
[[nodiscard]] std::uint64_t count_in(const nlohmann::json& object, const char* name);
/// The same; empty if there is none, or it is no string.
[[nodiscard]] std::string text_in(const nlohmann::json& object, const char* name);
/// The same; `otherwise` if there is none, or it is no boolean.
[[nodiscard]] bool flag_in(const nlohmann::json& object, const char* name, bool otherwise);
/// An object in an object; an empty one if there is none.
[[nodiscard]] const nlohmann::json& object_in(const nlohmann::json& object, const char* name);
/// A list in an object; an empty one if there is none.
[[nodiscard]] const nlohmann::json& list_in(const nlohmann::json& object, const char* name);

}  // namespace mrc::inline v0_1::control
