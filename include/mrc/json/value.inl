// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/core/value_text.hpp"
#include "mrc/json/value.hpp"

namespace mrc::inline v0_1::json_file::detail {

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const auto number = mrc::detail::take_real(text);
  if (!number || !(*number >= 0)) return std::nullopt;
  double unit = 1;
  if (!text.empty() && text != "B") {
    const std::size_t power = std::string_view("KMGT").find(text[0] == 'k' ? 'K' : text[0]);
    const std::string_view rest = text.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB"))
      return std::nullopt;
    for (std::size_t i = 0; i <= power; ++i) unit *= rest == "B" ? 1000 : 1024;
  }
  const double bytes = *number * unit;
  constexpr double kExact = 9007199254740992;  // 2^53: whole numbers are exact up to here
  if (!(bytes <= kExact) || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::string format_bytes(std::uint64_t bytes) {
  const std::string text = format_size(bytes);
  const bool has_unit = text.back() < '0' || text.back() > '9';
  return text + (has_unit ? "iB" : "B");
}

std::uint16_t read_hex(const Tree& tree, const Node& node) {
  // As a wider type: range_text() takes the largest value of a type as "no limit".
  if (node.kind != Node::Kind::text)
    return static_cast<std::uint16_t>(read_integer<std::uint32_t>(tree, node, 0, 0xFFFF));
  if (const auto number = parse_hex(node.text)) return *number;
  tree.fail(node, "is " + shown(node) + ", must be a number or a text, \"0x0000\" to \"0xffff\"");
}

unsigned read_index(const Tree& tree, const Node& node, std::string_view prefix, unsigned max) {
  std::optional<unsigned> number;
  if (node.kind == Node::Kind::text && node.text.starts_with(prefix) &&
      node.text.find_first_not_of("0123456789", prefix.size()) == std::string::npos)
    number = parse_integer<unsigned>(std::string_view(node.text).substr(prefix.size()));
  if (node.kind == Node::Kind::integer && !node.negative && node.magnitude <= max)
    number = static_cast<unsigned>(node.magnitude);
  if (number && *number <= max) return *number;
  const auto name = [&](unsigned n) { return std::string(prefix) + std::to_string(n); };
  tree.fail(node, "is " + shown(node) + ", must be " + name(0) + " to " + name(max));
}

double read_number(const Tree& tree, const Node& node, double min, double max) {
  const bool number = node.kind == Node::Kind::integer || node.kind == Node::Kind::real;
  if (number && node.real >= min && node.real <= max) return node.real;
  const std::string range = range_text(min, max, number_text);
  tree.fail(node, "is " + shown(node) + ", must be " + (number ? "" : "a number, ") + range);
}

Duration read_duration(const Tree& tree, const Node& node, Duration min, Duration max) {
  std::optional<Duration> time;
  if (node.kind == Node::Kind::text) time = parse_duration(node.text);
  if (node.kind == Node::Kind::integer && node.magnitude == 0) time = Duration::zero();
  if (time && *time >= min && *time <= max) return *time;
  const std::string range =
      range_text(min.count(), max.count(), [](auto ns) { return format_duration(Duration{ns}); });
  tree.fail(node, "is " + shown(node) + ", must be " +
                      (time ? "" : "a time with its unit (ns, us, ms, s), ") + range);
}

std::uint64_t read_bytes(const Tree& tree, const Node& node, std::uint64_t min, std::uint64_t max) {
  std::optional<std::uint64_t> bytes;
  if (node.kind == Node::Kind::text) bytes = parse_bytes(node.text);
  if (node.kind == Node::Kind::integer && !node.negative) bytes = node.magnitude;
  if (node.kind == Node::Kind::real) bytes = parse_bytes(node.text);
  if (bytes && *bytes >= min && *bytes <= max) return *bytes;
  const std::string range = range_text(min, max, format_bytes);
  tree.fail(node, "is " + shown(node) + ", must be " +
                      (bytes ? "" : "a size (4096, \"64KiB\", \"1MB\"), ") + range);
}

bool read_boolean(const Tree& tree, const Node& node) {
  if (node.kind == Node::Kind::boolean) return node.truth;
  tree.fail(node, "is " + shown(node) + ", must be true or false");
}

std::string read_text(const Tree& tree, const Node& node) {
  const bool nested = node.kind == Node::Kind::list || node.kind == Node::Kind::object;
  if (node.kind == Node::Kind::text || (node.from_set && !nested)) return node.text;
  tree.fail(node, "is " + shown(node) + ", must be a text");
}

}  // namespace mrc::inline v0_1::json_file::detail
