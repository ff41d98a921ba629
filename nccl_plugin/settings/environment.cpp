// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>

#include "mrc/core/value_text.hpp"

namespace mrc_nccl {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> process_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

/// "all|1|on", "none|0|off" as "all, none".
std::string words_text(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& group : words)
    text += (text.empty() ? "" : ", ") + group.substr(0, group.find('|'));
  return text;
}

}  // namespace

SettingsError not_allowed(std::string_view variable, std::string_view value,
                          std::string_view allowed) {
  std::string text = "environment variable ";
  text.append(variable).append(": value '").append(value);
  text.append("' is not allowed; allowed: ").append(allowed);
  return SettingsError(text);
}

std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  constexpr std::size_t kTooFar = 5;  // edits; the names share a prefix of 8 or 9 letters
  std::string best;
  std::size_t best_distance = kTooFar;
  for (const auto& candidate : names) {
    const std::size_t distance = edit_distance(name.substr(0, 64), candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

Environment::Environment() : get_([](const char* name) { return std::getenv(name); }), own_(true) {}

Environment::Environment(Getter get, std::vector<std::string> names)
    : get_(std::move(get)), names_(std::move(names)) {}

Environment::Environment(std::vector<std::pair<std::string, std::string>> variables) {
  using Map = std::map<std::string, std::string>;
  const auto values = std::make_shared<const Map>(variables.begin(), variables.end());
  for (const auto& entry : *values) names_.push_back(entry.first);
  get_ = [values](const char* name) -> const char* {
    const auto found = values->find(name);
    return found == values->end() ? nullptr : found->second.c_str();
  };
}

std::optional<std::string> Environment::find(const std::string& name) const {
  const char* value = get_(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<std::string> Environment::find_file(const std::string& name) const {
  if (own_ && ::secure_getenv(name.c_str()) == nullptr) return std::nullopt;
  return find(name);
}

std::optional<int> Environment::integer(const std::string& name, int min, int max,
                                        std::string_view meaning) const {
  const auto text = find(name);
  if (!text) return std::nullopt;
  const auto number = mrc::parse_integer<int>(*text);
  if (number && *number >= min && *number <= max) return number;
  std::string allowed = std::to_string(min) + " .. " + std::to_string(max);
  if (!meaning.empty()) allowed.append(" (").append(meaning).append(")");
  throw not_allowed(name, *text, allowed);
}

std::optional<std::size_t> Environment::choice(const std::string& name,
                                               const std::vector<std::string>& words) const {
  const auto text = find(name);
  if (!text) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string all = "|" + words[i] + "|";
    if (text->find('|') == std::string::npos && all.find("|" + *text + "|") != std::string::npos)
      return i;
  }
  throw not_allowed(name, *text, words_text(words));
}

std::vector<std::string> Environment::names() const {
  std::vector<std::string> names = own_ ? process_names() : names_;
  std::sort(names.begin(), names.end());
  return names;
}

mrc::Config Environment::library_config(const mrc::Config& defaults) const {
  try {
    if (own_) return mrc::Config::from_environment(defaults);
    mrc::Config config = defaults;
    for (const mrc::Option& option : mrc::options()) {
      const std::string variable = mrc::variable_name(option);
      if (const auto value = find(variable))
        mrc::assign_option(option, config, *value, "environment variable " + variable);
    }
    config.validate();
    return config;
  } catch (const mrc::Error& error) {
    throw SettingsError(error.what());
  }
}

std::string Environment::unknown_to_library() const {
  return own_ ? mrc::unknown_variables_once() : std::string();
}

}  // namespace mrc_nccl
