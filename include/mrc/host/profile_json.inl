// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/host/profile_json.hpp"

namespace mrc::inline v0_1::detail {

namespace profile_text {

using Json = nlohmann::json;

inline constexpr const char* kStates[] = {"INIT", "OFFLINE", "ONLINE"};
inline constexpr std::pair<EvProfileMode, const char*> kModes[] = {
    {EvProfileMode::automatic, "AUTO"},
    {EvProfileMode::explicit_, "EXPLICIT"},
    {EvProfileMode::generated, "GENERATED"}};
inline constexpr std::pair<path::EvMode, const char*> kFormats[] = {
    {path::EvMode::stev, "STEV"}, {path::EvMode::srv6, "SRV6"}, {path::EvMode::udp, "UDP"}};
/// Elements of one list.
inline constexpr std::size_t kMost = 1 << 16;

/// The members of a CC profile's configuration, each with f(name, member).
template <class Config, class F>
void each_parameter(Config& c, F&& f) {
  f("disable_qa", c.disable_qa);
  f("adjust_bytes_threshold", c.adjust_bytes_threshold);
  f("adjust_period_threshold_ns", c.adjust_period_threshold);
  f("base_rtt_ns", c.base_rtt);
  f("eta", c.eta);
  f("fi", c.fi);
  f("fi_scale", c.fi_scale);
  f("gamma", c.gamma);
  f("max_md_jump", c.max_md_jump);
  f("max_cwnd", c.max_cwnd);
  f("qa_gate", c.qa_gate);
  f("qa_threshold_ns", c.qa_threshold);
  f("target_delay_ns", c.target_delay);
}

template <class Value, std::size_t N>
[[nodiscard]] const char* name_of(const std::pair<Value, const char*> (&names)[N], Value value) {
  for (const auto& [known, name] : names)
    if (known == value) return name;
  return "unknown";
}

/// A profile, or a part of one, that is read.
class Reader {
 public:
  Reader(const Json& json, std::string of) : json_(json), of_(std::move(of)) {
    if (!json_.is_object()) fail("it must be an object");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Errc::invalid_argument, of_ + ": " + what);
  }
  void only(std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : json_.items())
      if (std::find(known.begin(), known.end(), name) == known.end())
        fail("there is no field '" + name.substr(0, 64) + "'");
  }
  [[nodiscard]] const Json* find(const char* name) const {
    const auto at = json_.find(name);
    return at == json_.end() ? nullptr : &*at;
  }
  [[nodiscard]] std::optional<std::uint64_t> number(
      const char* name, std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) const {
    const Json* field = find(name);
    if (field == nullptr) return std::nullopt;
    if (!field->is_number_unsigned() || field->get<std::uint64_t>() > most)
      fail(std::string("field ") + name + " must be a whole number up to " + std::to_string(most));
    return field->get<std::uint64_t>();
  }
  [[nodiscard]] bool yes_or_no(const char* name) const {
    const Json* field = find(name);
    if (field == nullptr) return false;
    if (!field->is_boolean()) fail(std::string("field ") + name + " must be true or false");
    return field->get<bool>();
  }
  /// One of some words: its position.
  [[nodiscard]] std::optional<std::size_t> word(const char* name,
                                                std::initializer_list<const char*> words) const {
    const Json* field = find(name);
    if (field == nullptr) return std::nullopt;
    std::string known;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (*field == words.begin()[i]) return i;
      known += (i == 0 ? "" : ", ") + std::string(words.begin()[i]);
    }
    fail(std::string("field ") + name + " must be one of " + known);
  }
  /// Calls f(element) for each of a list, which may be missing.
  template <class F>
  void each(const char* name, F&& f) const {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > kMost)
      fail(std::string("field ") + name + " must be a list of up to " + std::to_string(kMost) +
           " elements");
    for (const Json& element : *field) f(element);
  }
  [[nodiscard]] std::string text(const char* name) const {
    const Json* field = find(name);
    if (field == nullptr || !field->is_string())
      fail(std::string("field ") + name + " must be text");
    return field->get<std::string>();
  }
  [[nodiscard]] const std::string& of() const noexcept { return of_; }

 private:
  const Json& json_;
  std::string of_;
};

template <class Value, std::size_t N>
[[nodiscard]] std::optional<Value> named(const Reader& r, const char* field,
                                         const std::pair<Value, const char*> (&names)[N]) {
  static_assert(N == 3);
  const auto at = r.word(field, {names[0].second, names[1].second, names[2].second});
  return at ? std::optional(names[*at].first) : std::nullopt;
}

[[nodiscard]] ProfileState state_of(const Reader& r) {
  const auto at = r.word("state", {kStates[1], kStates[2]});
  if (!at) r.fail("field state is missing");
  return static_cast<ProfileState>(*at + 1);
}

template <class T>
[[nodiscard]] std::optional<T> narrow(const std::optional<std::uint64_t>& number) {
  return number ? std::optional(static_cast<T>(*number)) : std::nullopt;
}

[[nodiscard]] ProfileSet::Format format_from(const Reader& r) {
  r.only({"id", "state", "mode", "fields"});
  ProfileSet::Format profile;
  profile.state = state_of(r);
  profile.mode = named(r, "mode", kFormats);
  if (r.find("fields") == nullptr) return profile;
  profile.fields.emplace();
  r.each("fields", [&](const Json& width) {
    if (!width.is_number_unsigned() || width.get<std::uint64_t>() > path::kEvBits)
      r.fail("field fields must be a list of widths, each up to 256 bits");
    profile.fields->push_back({width.get<std::uint16_t>()});
  });
  return profile;
}

[[nodiscard]] ProfileSet::Evs evs_from(const Reader& r) {
  r.only(
      {"id", "state", "mode", "format", "ev_count", "min_active", "event_mask", "fields", "evs"});
  constexpr std::uint64_t k32 = std::numeric_limits<std::uint32_t>::max();
  ProfileSet::Evs profile;
  profile.state = state_of(r);
  profile.mode = named(r, "mode", kModes);
  profile.format = r.number("format");
  profile.ev_count = narrow<std::uint32_t>(r.number("ev_count", k32));
  profile.min_active = narrow<std::uint32_t>(r.number("min_active", k32));
  profile.event_mask = narrow<std::uint32_t>(r.number("event_mask", k32));
  r.each("fields", [&](const Json& element) {
    const Reader f(element, r.of() + ", an element of fields");
    f.only({"width", "init", "min", "max", "mask"});
    profile.fields.push_back({static_cast<std::uint16_t>(f.number("width", 64).value_or(0)),
                              f.number("init").value_or(0), f.number("min").value_or(0),
                              f.number("max").value_or(0), f.number("mask").value_or(0)});
  });
  r.each("evs", [&](const Json& element) {
    const Reader e(element, r.of() + ", an element of evs");
    e.only({"ev", "port", "denied", "writes"});
    ProfileSet::Entry entry;
    try {
      entry.ev.value = ev_from_text(e.text("ev"));
    } catch (const Error& error) {
      r.fail(words_of(error));
    }
    entry.ev.port = static_cast<std::uint8_t>(e.number("port", kMaxPlanes).value_or(0));
    entry.denied = e.yes_or_no("denied");
    entry.writes = narrow<std::uint32_t>(e.number("writes", k32)).value_or(0);
    profile.entries.push_back(entry);
  });
  return profile;
}

inline void put(const Reader& r, const char* name, std::optional<bool>& to) {
  if (r.find(name) != nullptr) to = r.yes_or_no(name);
}
template <class T>
void put(const Reader& r, const char* name, std::optional<T>& to) {
  to = narrow<T>(r.number(name, std::numeric_limits<T>::max()));
}
inline void put(const Reader& r, const char* name, std::optional<Duration>& to) {
  constexpr auto kMostNs = static_cast<std::uint64_t>(Duration::max().count());
  if (const auto ns = r.number(name, kMostNs)) to = Duration(static_cast<Duration::rep>(*ns));
}
inline void put(const Reader& r, const char* name, std::optional<double>& to) {
  const Json* field = r.find(name);
  if (field == nullptr) return;
  if (!field->is_number()) r.fail(std::string("field ") + name + " must be a number");
  to = field->get<double>();
}

[[nodiscard]] ProfileSet::Cc cc_from(const Reader& r) {
  r.only({"id", "state", "algorithm", "config"});
  ProfileSet::Cc profile;
  profile.state = state_of(r);
  if (r.find("algorithm") != nullptr) {
    profile.algorithm = cc::parse_algorithm(r.text("algorithm"));
    if (!profile.algorithm) r.fail("field algorithm must be one of none, fixed, uet-1.0-nscc");
  }
  if (const Json* given = r.find("config")) {
    const Reader c(*given, r.of() + ", config");
    c.only({"disable_qa", "adjust_bytes_threshold", "adjust_period_threshold_ns", "base_rtt_ns",
            "eta", "fi", "fi_scale", "gamma", "max_md_jump", "max_cwnd", "qa_gate",
            "qa_threshold_ns", "target_delay_ns"});
    profile.config.emplace();
    each_parameter(*profile.config, [&](const char* name, auto& member) { put(c, name, member); });
  }
  return profile;
}

/// The profiles of a list, by number.
template <class Profile>
[[nodiscard]] std::map<ProfileId, Profile> read_all(const Reader& set, const char* list,
                                                    const char* kind,
                                                    Profile (*read)(const Reader&)) {
  std::map<ProfileId, Profile> all;
  set.each(list, [&](const Json& element) {
    const auto id = Reader(element, std::string("an element of ") + list).number("id");
    if (!id || *id == 0) set.fail(std::string("an element of ") + list + " has no id from 1 on");
    const Reader r(element, std::string(kind) + " profile " + std::to_string(*id));
    if (!all.emplace(*id, read(r)).second) r.fail("it is there twice");
  });
  return all;
}

template <class Profile>
[[nodiscard]] Json start_of(ProfileId id, const Profile& profile) {
  return {{"id", id}, {"state", kStates[static_cast<unsigned>(profile.state) % 3]}};
}
template <class T>
void set_field(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}
inline void set_field(Json& json, const char* name, const std::optional<Duration>& value) {
  if (value) json[name] = value->count();
}

}  // namespace profile_text

std::string to_text(const path::EvValue& value) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : value) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  const std::size_t last = text.find_last_not_of('0');
  return last == std::string::npos ? "0" : text.substr(0, last + 1);
}

path::EvValue ev_from_text(std::string_view text) {
  path::EvValue value{};
  if (text.empty() || text.size() > 2 * value.size())
    throw Error(Errc::invalid_argument, "an EV has 1 to 64 hexadecimal digits");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) throw Error(Errc::invalid_argument, "an EV has 1 to 64 hexadecimal digits");
    value[i / 2] = static_cast<std::uint8_t>(value[i / 2] | digit << (i % 2 == 0 ? 4 : 0));
  }
  return value;
}

nlohmann::json to_json(const ProfileSet& set) {
  using namespace profile_text;
  Json formats = Json::array(), evs = Json::array(), ccs = Json::array();
  for (const auto& [id, profile] : set.formats) {
    Json json = start_of(id, profile);
    if (profile.mode) json["mode"] = name_of(kFormats, *profile.mode);
    if (profile.fields) {
      json["fields"] = Json::array();
      for (const path::FormatField& field : *profile.fields) json["fields"].push_back(field.width);
    }
    formats.push_back(std::move(json));
  }
  for (const auto& [id, profile] : set.evs) {
    Json json = start_of(id, profile);
    if (profile.mode) json["mode"] = name_of(kModes, *profile.mode);
    set_field(json, "format", profile.format);
    set_field(json, "ev_count", profile.ev_count);
    set_field(json, "min_active", profile.min_active);
    set_field(json, "event_mask", profile.event_mask);
    for (const path::EvField& f : profile.fields)
      json["fields"].push_back({{"width", f.width},
                                {"init", f.init_val},
                                {"min", f.min_val},
                                {"max", f.max_val},
                                {"mask", f.mask}});
    for (const ProfileSet::Entry& entry : profile.entries) {
      Json one{{"ev", to_text(entry.ev.value)}, {"port", entry.ev.port}};
      if (entry.denied) one["denied"] = true;
      if (entry.writes != 0) one["writes"] = entry.writes;
      json["evs"].push_back(std::move(one));
    }
    evs.push_back(std::move(json));
  }
  for (const auto& [id, profile] : set.ccs) {
    Json json = start_of(id, profile);
    if (profile.algorithm) json["algorithm"] = cc::to_string(*profile.algorithm);
    if (profile.config) {
      json["config"] = Json::object();
      each_parameter(*profile.config, [&](const char* name, const auto& member) {
        set_field(json["config"], name, member);
      });
    }
    ccs.push_back(std::move(json));
  }
  return {{"format_profiles", std::move(formats)},
          {"ev_profiles", std::move(evs)},
          {"cc_profiles", std::move(ccs)}};
}

ProfileSet profiles_from_json(const nlohmann::json& json) {
  using namespace profile_text;
  const Reader r(json, "profiles");
  r.only({"format_profiles", "ev_profiles", "cc_profiles"});
  ProfileSet set;
  set.formats = read_all(r, "format_profiles", "format", &format_from);
  set.evs = read_all(r, "ev_profiles", "EV", &evs_from);
  set.ccs = read_all(r, "cc_profiles", "CC", &cc_from);
  return set;
}

}  // namespace mrc::inline v0_1::detail
