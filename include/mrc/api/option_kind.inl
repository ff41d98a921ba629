// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/value_text.hpp"

/// The kinds of options: where in a Config the value is, its range, and its form as text. Shared by
/// the definitions of api/, and no part of its interface. Include api/device_config.hpp before
/// it: if this file did, header-only compilation would come back here through
/// device_config.inl.
namespace mrc::inline v0_1::detail {

/// Where an option's value is: a member of Config, or of Config::expert. Implicit from both.
template <class T>
struct ConfigMember {
  constexpr ConfigMember(T Config::*member) : plain(member) {}
  constexpr ConfigMember(T ExpertConfig::*member) : expert(member) {}
  [[nodiscard]] const T& of(const Config& c) const {
    return plain != nullptr ? c.*plain : c.expert.*expert;
  }
  [[nodiscard]] T& of(Config& c) const { return plain != nullptr ? c.*plain : c.expert.*expert; }

  T Config::*plain = nullptr;
  T ExpertConfig::*expert = nullptr;
};

/// on or off.
struct BoolOption {
  /// The value.
  ConfigMember<bool> member;
};

/// How a number is written in messages and documents.
enum class NumberStyle : std::uint8_t { plain, size, mtu, zero_is_auto };

/// A number or a duration between two limits, both included.
template <class T>
struct NumberOption {
  /// The value.
  ConfigMember<T> member;
  /// Smallest value allowed.
  T min;
  /// Largest value allowed.
  T max;
  /// How the number is written.
  NumberStyle style = NumberStyle::plain;
};

/// A value of an enumeration and its name.
template <class E>
struct Choice {
  /// The name, as in a variable or on a command line.
  std::string_view name;
  /// The value of that name.
  E value;
};
/// Names of the congestion control algorithms.
inline constexpr std::array<Choice<cc::Algorithm>, 3> kCcChoices{{{"nscc", cc::Algorithm::nscc},
                                                                  {"fixed", cc::Algorithm::fixed},
                                                                  {"none", cc::Algorithm::none}}};
/// Names of the offload settings.
inline constexpr std::array<Choice<port::Offload>, 3> kOffloadChoices{
    {{"auto", port::Offload::automatic}, {"on", port::Offload::on}, {"off", port::Offload::off}}};
/// Names of the log levels.
inline constexpr std::array<Choice<LogLevel>, 3> kLogChoices{
    {{"off", LogLevel::off}, {"warn", LogLevel::warn}, {"info", LogLevel::info}}};

/// Names of the kinds of peers.
inline constexpr std::array<Choice<PeerKind>, 3> kPeerChoices{
    {{"any", PeerKind::any}, {"openmrc", PeerKind::openmrc}, {"mrc", PeerKind::mrc}}};

/// One of a few names.
template <class E>
struct ChoiceOption {
  /// The value.
  ConfigMember<E> member;
  /// The values allowed.
  const std::array<Choice<E>, 3>* choices;
};

/// A text with a syntax of its own. `mistake_in` returns what is wrong with a text and what is
/// allowed instead, or an empty string; `allowed` is for the documentation.
struct TextOption {
  /// The value.
  ConfigMember<std::string> member;
  /// What is wrong with a text, what is allowed included; empty: nothing.
  std::string (*mistake_in)(std::string_view text);
  /// What is allowed, in words.
  std::string_view allowed;
};

/// Several texts, separated by commas; `allowed` says in words what they may be.
struct ListOption {
  /// The value.
  ConfigMember<std::vector<std::string>> member;
  /// What is allowed, in words.
  std::string_view allowed;
};

using OptionVariant =
    std::variant<BoolOption, NumberOption<int>, NumberOption<std::uint8_t>,
                 NumberOption<std::uint16_t>, NumberOption<std::uint32_t>,
                 NumberOption<std::uint64_t>, NumberOption<double>, NumberOption<Duration>,
                 ChoiceOption<cc::Algorithm>, ChoiceOption<port::Offload>, ChoiceOption<LogLevel>,
                 TextOption, ListOption, ChoiceOption<PeerKind>>;

/// std::visit() of a kind, as a switch: it compiles in a fraction of the time.
template <class F>
decltype(auto) visit_kind(const F& f, const OptionVariant& kind) {
  static_assert(std::variant_size_v<OptionVariant> == 14);
  switch (kind.index()) {
    case 0:
      return f(*std::get_if<0>(&kind));
    case 1:
      return f(*std::get_if<1>(&kind));
    case 2:
      return f(*std::get_if<2>(&kind));
    case 3:
      return f(*std::get_if<3>(&kind));
    case 4:
      return f(*std::get_if<4>(&kind));
    case 5:
      return f(*std::get_if<5>(&kind));
    case 6:
      return f(*std::get_if<6>(&kind));
    case 7:
      return f(*std::get_if<7>(&kind));
    case 8:
      return f(*std::get_if<8>(&kind));
    case 9:
      return f(*std::get_if<9>(&kind));
    case 10:
      return f(*std::get_if<10>(&kind));
    case 11:
      return f(*std::get_if<11>(&kind));
    case 12:
      return f(*std::get_if<12>(&kind));
    default:
      return f(*std::get_if<13>(&kind));
  }
}

/// What an Option points at.
struct MRC_LOCAL OptionKind {
  template <class Kind>
  constexpr OptionKind(Kind kind) : value(kind) {}  // NOLINT(google-explicit-constructor)
  OptionVariant value;
};

[[nodiscard]] std::string count_text(std::uint64_t value, NumberStyle style) {
  if (style == NumberStyle::size) return format_size(value);
  if ((style == NumberStyle::zero_is_auto || style == NumberStyle::mtu) && value == 0)
    return "auto";
  return std::to_string(value);
}
template <class T>
[[nodiscard]] std::string number_text(T value, NumberStyle style) {
  if constexpr (std::is_same_v<T, Duration>)
    return format_duration(value);
  else if constexpr (std::is_same_v<T, double>)
    return format_real(value);
  else if constexpr (std::is_signed_v<T>)
    return std::to_string(value);
  else
    return count_text(value, style);
}

template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  if constexpr (std::is_same_v<T, Duration>)
    return parse_duration(text);
  else if constexpr (std::is_same_v<T, double>)
    return parse_real(text);
  else
    return parse_integer<T>(text);
}

template <class T>
[[nodiscard]] bool in_range(const NumberOption<T>& option, T value) {
  if (option.style == NumberStyle::mtu && value == T{}) return true;
  // In this form the test rejects NaN.
  if (!(value >= option.min && value <= option.max)) return false;
  if constexpr (std::is_unsigned_v<T>)
    if (option.style == NumberStyle::mtu) return value % kMtuUnit == 0;
  return true;
}

// The operations on an option, overloaded by its kind:
//   holds       whether the member's value is allowed
//   text_of     the member as text
//   allowed_by  the allowed values in words
//   assign      sets the member from text; false and no change if it is not allowed

[[nodiscard]] inline bool holds(const auto&, const Config&) {
  return true;
}
template <class T>
[[nodiscard]] bool holds(const NumberOption<T>& o, const Config& c) {
  return in_range(o, o.member.of(c));
}
template <class E>
[[nodiscard]] bool holds(const ChoiceOption<E>& o, const Config& c) {
  for (const auto& choice : *o.choices)
    if (choice.value == o.member.of(c)) return true;
  return false;
}

[[nodiscard]] bool holds(const TextOption& o, const Config& c) {
  return o.mistake_in(o.member.of(c)).empty();
}

[[nodiscard]] std::string text_of(const BoolOption& o, const Config& c) {
  return o.member.of(c) ? "on" : "off";
}
template <class T>
[[nodiscard]] std::string text_of(const NumberOption<T>& o, const Config& c) {
  return number_text(o.member.of(c), o.style);
}
template <class E>
[[nodiscard]] std::string text_of(const ChoiceOption<E>& o, const Config& c) {
  for (const auto& choice : *o.choices)
    if (choice.value == o.member.of(c)) return std::string(choice.name);
  return std::to_string(static_cast<unsigned>(o.member.of(c)));
}
[[nodiscard]] std::string text_of(const TextOption& o, const Config& c) {
  return o.member.of(c);
}
[[nodiscard]] std::string text_of(const ListOption& o, const Config& c) {
  std::string text;
  for (const auto& element : o.member.of(c)) text += (text.empty() ? "" : ",") + element;
  return text;
}

[[nodiscard]] std::string allowed_by(const BoolOption&) {
  return "on, off (or true, false, 1, 0)";
}
[[nodiscard]] std::string range_text(const std::string& min, const std::string& max,
                                     NumberStyle style) {
  if (style == NumberStyle::zero_is_auto) return "1 .. " + max + ", or auto";
  std::string text = min + " .. " + max;
  if (style == NumberStyle::mtu)
    text += ", a multiple of " + std::to_string(kMtuUnit) + ", or auto";
  return text;
}
template <class T>
[[nodiscard]] std::string allowed_by(const NumberOption<T>& o) {
  return range_text(number_text(o.min, o.style), number_text(o.max, o.style), o.style);
}
template <class E>
[[nodiscard]] std::string allowed_by(const ChoiceOption<E>& o) {
  std::string text;
  for (const auto& choice : *o.choices) text.append(text.empty() ? "" : ", ").append(choice.name);
  return text;
}
[[nodiscard]] std::string allowed_by(const TextOption& o) {
  return std::string(o.allowed);
}
[[nodiscard]] std::string allowed_by(const ListOption& o) {
  return std::string(o.allowed);
}

[[nodiscard]] bool assign(const BoolOption& o, Config& c, std::string_view text) {
  const auto value = parse_bool(text);
  if (value) o.member.of(c) = *value;
  return value.has_value();
}
template <class T>
[[nodiscard]] bool assign(const NumberOption<T>& o, Config& c, std::string_view text) {
  const bool has_auto = o.style == NumberStyle::zero_is_auto || o.style == NumberStyle::mtu;
  const bool automatic = has_auto && text == "auto";
  const auto value = automatic ? T{} : parse_number<T>(text);
  if (!value || !in_range(o, *value)) return false;
  o.member.of(c) = *value;
  return true;
}
template <class E>
[[nodiscard]] bool assign(const ChoiceOption<E>& o, Config& c, std::string_view text) {
  if constexpr (std::is_same_v<E, port::Offload>)  // true, false, 1 and 0, too
    if (const auto value = parse_bool(text)) text = *value ? "on" : "off";
  for (const auto& choice : *o.choices) {
    if (choice.name != text) continue;
    o.member.of(c) = choice.value;
    return true;
  }
  return false;
}
[[nodiscard]] bool assign(const TextOption& o, Config& c, std::string_view text) {
  if (!o.mistake_in(text).empty()) return false;
  o.member.of(c) = text;
  return true;
}
[[nodiscard]] bool assign(const ListOption& o, Config& c, std::string_view text) {
  auto value = parse_list(text);
  if (value) o.member.of(c) = std::move(*value);
  return value.has_value();
}

}  // namespace mrc::inline v0_1::detail
