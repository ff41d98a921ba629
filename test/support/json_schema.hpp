// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

namespace mrc::test {

/// A JSON schema of draft 2020-12, with the keywords that those in docs/ use; any other one is an
/// error, so that none goes unchecked.
class JsonSchema {
 public:
  using Json = nlohmann::json;

  explicit JsonSchema(Json schema) : root_(std::move(schema)) {}

  [[nodiscard]] const Json& root() const { return root_; }

  /// What is wrong with a document: the place and the keyword; empty if nothing.
  [[nodiscard]] std::string error(const Json& document) const {
    Names seen;
    return check(root_, document, "", seen);
  }

  /// The schema itself, or what its "$ref" names.
  [[nodiscard]] const Json& target(const Json& schema) const {
    const std::string ref = schema.at("$ref");
    return root_.at(Json::json_pointer(ref.substr(1)));
  }

  /// The properties of an object that has no others, those behind "$ref" included.
  [[nodiscard]] std::map<std::string, Json> properties(const Json& schema) const {
    std::map<std::string, Json> all;
    if (schema.contains("$ref")) all = properties(target(schema));
    if (schema.contains("properties"))
      for (const auto& [name, field] : schema.at("properties").items()) all[name] = field;
    return all;
  }

 private:
  using Names = std::set<std::string>;

  static bool has_type(const Json& v, const std::string& type) {
    if (type == "object") return v.is_object();
    if (type == "array") return v.is_array();
    if (type == "string") return v.is_string();
    if (type == "boolean") return v.is_boolean();
    if (type == "number") return v.is_number();
    if (type == "integer")
      return v.is_number_integer() || (v.is_number() && v == static_cast<std::int64_t>(v));
    throw std::logic_error("unknown type " + type);
  }

  [[nodiscard]] bool is_valid(const Json& schema, const Json& v, Names& seen) const {
    Names own;
    if (!check(schema, v, "", own).empty()) return false;
    seen.insert(own.begin(), own.end());
    return true;
  }

  /// The error of one value; `seen` gets the names of the fields that schemas know.
  [[nodiscard]] std::string check(const Json& schema, const Json& v, const std::string& at,
                                  Names& seen) const {
    if (schema.is_boolean()) return schema.get<bool>() ? "" : at + ": not allowed";
    for (const auto& [keyword, rule] : schema.items()) {
      // Those that depend on others come last.
      if (keyword == "additionalProperties" || keyword == "unevaluatedProperties") continue;
      const std::string error = check(schema, keyword, rule, v, at, seen);
      if (!error.empty()) return error;
    }
    if (!v.is_object()) return {};
    if (schema.contains("additionalProperties"))
      for (const auto& [name, value] : v.items())
        if (!schema.at("properties").contains(name)) return at + "/" + name + ": unknown";
    if (schema.contains("unevaluatedProperties"))
      for (const auto& [name, value] : v.items())
        if (!seen.contains(name)) return at + "/" + name + ": unknown";
    return {};
  }

  [[nodiscard]] std::string check(const Json& schema, const std::string& keyword, const Json& rule,
                                  const Json& v, const std::string& at, Names& seen) const {
    const auto fails_unless = [&](bool ok) { return ok ? "" : at + ": " + keyword; };
    for (const char* other :
         {"$schema", "$defs", "title", "description", "default", "format", "then", "else"})
      if (keyword == other) return {};
    if (keyword == "$ref") return check(target(schema), v, at, seen);
    if (keyword == "type") return fails_unless(has_type(v, rule));
    if (keyword == "const") return fails_unless(v == rule);
    if (keyword == "enum")
      return fails_unless(std::find(rule.begin(), rule.end(), v) != rule.end());
    if (keyword == "minimum") return fails_unless(!v.is_number() || v >= rule);
    if (keyword == "maximum") return fails_unless(!v.is_number() || v <= rule);
    if (keyword == "minLength")
      return fails_unless(!v.is_string() || v.get<std::string>().size() >= rule);
    if (keyword == "maxLength")
      return fails_unless(!v.is_string() || v.get<std::string>().size() <= rule);
    if (keyword == "minItems") return fails_unless(!v.is_array() || v.size() >= rule);
    if (keyword == "maxItems") return fails_unless(!v.is_array() || v.size() <= rule);
    if (keyword == "pattern")
      return fails_unless(!v.is_string() || std::regex_search(v.get<std::string>(),
                                                              std::regex(rule.get<std::string>())));
    if (keyword == "required") {
      for (const auto& name : rule)
        if (v.is_object() && !v.contains(name))
          return at + "/" + name.get<std::string>() + ": missing";
      return {};
    }
    if (keyword == "properties") return check_fields(rule, v, at, seen);
    if (keyword == "items") return check_items(rule, v, at);
    return check_choice(schema, keyword, rule, v, at, seen);
  }

  [[nodiscard]] std::string check_fields(const Json& rule, const Json& v, const std::string& at,
                                         Names& seen) const {
    if (!v.is_object()) return {};
    for (const auto& [name, value] : v.items()) {
      if (!rule.contains(name)) continue;
      seen.insert(name);
      Names inner;
      const std::string error = check(rule.at(name), value, at + "/" + name, inner);
      if (!error.empty()) return error;
    }
    return {};
  }

  [[nodiscard]] std::string check_items(const Json& rule, const Json& v,
                                        const std::string& at) const {
    for (std::size_t i = 0; v.is_array() && i < v.size(); ++i) {
      Names inner;
      const std::string error = check(rule, v[i], at + "/" + std::to_string(i), inner);
      if (!error.empty()) return error;
    }
    return {};
  }

  [[nodiscard]] std::string check_choice(const Json& schema, const std::string& keyword,
                                         const Json& rule, const Json& v, const std::string& at,
                                         Names& seen) const {
    if (keyword == "if") {
      const char* branch = is_valid(rule, v, seen) ? "then" : "else";
      return schema.contains(branch) ? check(schema.at(branch), v, at, seen) : "";
    }
    if (keyword == "not") {
      Names ignored;
      return is_valid(rule, v, ignored) ? at + ": not" : "";
    }
    std::size_t valid = 0;
    std::string first;
    if (keyword != "allOf" && keyword != "anyOf" && keyword != "oneOf")
      throw std::logic_error("unknown keyword " + keyword);
    for (const Json& one : rule) {
      Names own;
      const std::string error = check(one, v, at, own);
      if (first.empty()) first = error;
      if (!error.empty()) continue;
      ++valid;
      seen.insert(own.begin(), own.end());
    }
    if (keyword == "allOf") return first;
    return (keyword == "anyOf" ? valid >= 1 : valid == 1) ? "" : at + ": " + keyword;
  }

  Json root_;
};

}  // namespace mrc::test
