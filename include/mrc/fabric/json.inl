// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/fabric/json.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "mrc/core/value_text.hpp"

namespace mrc::inline v0_1::json_file {

bool Object::is_list(std::string_view name) const {
  const Node* node = find(name);
  return node != nullptr && node->kind == Kind::list;
}

bool Object::is_number(std::string_view name) const {
  const Node* node = find(name);
  return node != nullptr && (node->kind == Kind::integer || node->kind == Kind::real);
}

Object Object::object(std::string_view name) const {
  Node* node = find(name);
  if (node == nullptr) {
    node = tree_->create();
    node->kind = Kind::object;
    node->from_set = node_->from_set;
    node->line = node_->line;
    node->parent = node_;
    node->key = name;
  }
  return as_object(*node);
}

std::vector<Object> Object::array(std::string_view name, std::size_t min, std::size_t max) const {
  std::vector<Object> objects;
  const Node* list = find(name);
  if (list == nullptr && min > 0) missing(name);
  if (list == nullptr) return objects;
  if (list->kind != Kind::list)
    tree_->fail(*list, "is " + detail::shown(*list) + ", must be a list of objects");
  if (list->items.size() < min || list->items.size() > max)
    tree_->fail(*list, "has " + std::to_string(list->items.size()) + " elements, must have " +
                           std::to_string(min) + " to " + std::to_string(max));
  for (Node* item : list->items) objects.push_back(as_object(*item));
  return objects;
}

unsigned Object::index(std::string_view name, std::string_view prefix, unsigned max) const {
  return detail::read_index(*tree_, required(name), prefix, max);
}

unsigned Object::index(std::string_view name, std::string_view prefix, unsigned max,
                       unsigned fallback) const {
  return has(name) ? index(name, prefix, max) : fallback;
}

std::vector<unsigned> Object::indices(std::string_view name, std::string_view prefix,
                                      unsigned max) const {
  return list<unsigned>(
      name, {}, [&](const Node& node) { return detail::read_index(*tree_, node, prefix, max); });
}

std::uint16_t Object::hex(std::string_view name, std::uint16_t fallback) const {
  return has(name) ? detail::read_hex(*tree_, required(name)) : fallback;
}

double Object::number(std::string_view name, double min, double max) const {
  return detail::read_number(*tree_, required(name), min, max);
}

double Object::number(std::string_view name, double min, double max, double fallback) const {
  return has(name) ? number(name, min, max) : fallback;
}

std::vector<double> Object::numbers(std::string_view name, double min, double max,
                                    std::vector<double> fallback) const {
  return list<double>(name, std::move(fallback), [&](const Node& node) {
    return detail::read_number(*tree_, node, min, max);
  });
}

Duration Object::duration(std::string_view name, Duration min, Duration max) const {
  return detail::read_duration(*tree_, required(name), min, max);
}

Duration Object::duration(std::string_view name, Duration min, Duration max,
                          Duration fallback) const {
  return has(name) ? duration(name, min, max) : fallback;
}

std::vector<Duration> Object::durations(std::string_view name, Duration min, Duration max,
                                        std::vector<Duration> fallback) const {
  return list<Duration>(name, std::move(fallback), [&](const Node& node) {
    return detail::read_duration(*tree_, node, min, max);
  });
}

std::uint64_t Object::bytes(std::string_view name, std::uint64_t min, std::uint64_t max) const {
  return detail::read_bytes(*tree_, required(name), min, max);
}

std::uint64_t Object::bytes(std::string_view name, std::uint64_t min, std::uint64_t max,
                            std::uint64_t fallback) const {
  return has(name) ? bytes(name, min, max) : fallback;
}

std::vector<std::uint64_t> Object::sizes(std::string_view name, std::uint64_t min,
                                         std::uint64_t max,
                                         std::vector<std::uint64_t> fallback) const {
  return list<std::uint64_t>(name, std::move(fallback), [&](const Node& node) {
    return detail::read_bytes(*tree_, node, min, max);
  });
}

bool Object::boolean(std::string_view name) const {
  return detail::read_boolean(*tree_, required(name));
}

bool Object::boolean(std::string_view name, bool fallback) const {
  return has(name) ? boolean(name) : fallback;
}

std::string Object::text(std::string_view name) const {
  return detail::read_text(*tree_, required(name));
}

std::string Object::text(std::string_view name, std::string fallback) const {
  return has(name) ? text(name) : std::move(fallback);
}

std::vector<std::string> Object::texts(std::string_view name,
                                       std::vector<std::string> fallback) const {
  return list<std::string>(name, std::move(fallback),
                           [&](const Node& node) { return detail::read_text(*tree_, node); });
}

std::string Object::choice(std::string_view name, const std::vector<std::string>& allowed) const {
  const Node& node = required(name);
  if (node.kind == Kind::text || node.from_set)
    for (const std::string& word : allowed)
      if (word == node.text) return word;
  tree_->fail(node, "is " + detail::shown(node) + ", must be " +
                        (allowed.size() > 1 ? "one of " : "") + joined(allowed));
}

std::string Object::choice(std::string_view name, const std::vector<std::string>& allowed,
                           std::string fallback) const {
  return has(name) ? choice(name, allowed) : std::move(fallback);
}

void Object::fail(std::string_view name, std::string_view what) const {
  const Node* node = name.empty() ? nullptr : find(name);
  if (node != nullptr) tree_->fail(*node, what);
  tree_->fail(node_->from_set, node_->line, path_to(name), what);
}

void Object::fail(std::string_view name, std::size_t index, std::string_view what) const {
  const Node* node = find(name);
  if (node != nullptr && index < node->items.size()) tree_->fail(*node->items[index], what);
  fail(name, what);
}

void Object::finish() const {
  const Node* object = nullptr;
  const Node* unknown = first_unknown(*node_, object);
  if (unknown == nullptr) return;
  const std::string near = nearest_name(unknown->key, object->asked);
  std::string what = "unknown field";
  if (!near.empty())
    what += "; did you mean \"" + near + "\"?";
  else if (!object->asked.empty())
    what += "; known here: " + joined(object->asked);
  tree_->fail(unknown->from_set, unknown->key_line, detail::path_of(*unknown), what);
}

Object Object::as_object(Node& node) const {
  if (node.kind != Kind::object)
    tree_->fail(node, "is " + detail::shown(node) + ", must be an object");
  return {tree_, node};
}

Object::Node* Object::find(std::string_view name) const {
  node_->asked.emplace(name);
  const auto member = node_->members.find(name);
  return member == node_->members.end() ? nullptr : member->second;
}

const Object::Node& Object::required(std::string_view name) const {
  const Node* node = find(name);
  if (node == nullptr) missing(name);
  return *node;
}

std::string Object::path_to(std::string_view name) const {
  const std::string path = detail::path_of(*node_);
  return path + (path.empty() || name.empty() ? "" : ".") + std::string(name);
}

void Object::missing(std::string_view name) const {
  tree_->fail(node_->from_set, node_->line, path_to(name), "is missing");
}

const Object::Node* Object::first_unknown(const Node& node, const Node*& in) {
  const Node* first = nullptr;
  const auto consider = [&](const Node* found, const Node* object) {
    if (found == nullptr || (first != nullptr && first->order < found->order)) return;
    first = found;
    in = object;
  };
  for (const auto& [name, member] : node.members)
    if (!node.asked.contains(name)) consider(member, &node);
  const auto descend = [&](const Node& child) {
    const Node* object = nullptr;
    const Node* found = first_unknown(child, object);
    consider(found, object);
  };
  for (const auto& [name, member] : node.members)
    if (node.asked.contains(name)) descend(*member);
  for (const Node* item : node.items) descend(*item);
  return first;
}

}  // namespace mrc::inline v0_1::json_file

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

namespace mrc::inline v0_1::json_file {

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() <= limit) return out;
  // No incomplete UTF-8 sequence at the end.
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
  if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
  return out + "...";
}

std::string number_text(double number) {
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  char text[32];
  const std::to_chars_result done = std::to_chars(text, text + sizeof text, number, format);
  return {text, static_cast<std::size_t>(done.ptr - text)};
}

std::string hex_text(std::uint16_t number) {
  std::string text = "0x";
  for (int shift = 12; shift >= 0; shift -= 4) text += "0123456789abcdef"[number >> shift & 0xf];
  return text;
}

std::optional<std::uint16_t> parse_hex(std::string_view text) {
  if (!text.starts_with("0x") || text.size() > 6) return std::nullopt;
  std::uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result done = std::from_chars(text.data() + 2, end, number, 16);
  if (done.ec != std::errc{} || done.ptr != end) return std::nullopt;
  return number;
}

std::string nearest_name(std::string_view typed, const Names& names) {
  constexpr std::size_t kLongest = 64;
  if (typed.size() > kLongest) return {};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::string best;
  std::size_t best_distance = typed.size() / 3 + 2;
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    // Edit distance, with two neighbours swapped as one edit; the last three rows are enough.
    std::vector<std::size_t> before(name.size() + 1);
    std::vector<std::size_t> above(name.size() + 1);
    std::vector<std::size_t> row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= typed.size(); ++i) {
      before.swap(above);
      above.swap(row);
      row[0] = i;
      for (std::size_t j = 1; j <= name.size(); ++j) {
        const bool same = lower(typed[i - 1]) == lower(name[j - 1]);
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && lower(typed[i - 1]) == lower(name[j - 2]) &&
            lower(typed[i - 2]) == lower(name[j - 1]))
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    if (row[name.size()] < best_distance && row[name.size()] < name.size()) {
      best = name;
      best_distance = row[name.size()];
    }
  }
  return best;
}

}  // namespace mrc::inline v0_1::json_file

namespace mrc::inline v0_1::json_file::detail {

std::string path_of(const Node& node) {
  if (node.parent == nullptr) return {};
  std::string path = path_of(*node.parent);
  if (node.parent->kind == Node::Kind::list) return path + '[' + std::to_string(node.index) + ']';
  return path + (path.empty() ? "" : ".") + printable(node.key);
}

Node* Tree::create() {
  Node& node = nodes.emplace_back();
  node.order = nodes.size();
  return &node;
}

void Tree::put(Node& object, Node& child, std::string_view key) {
  child.parent = &object;
  child.key = key;
  object.members.insert_or_assign(std::string(key), &child);
}

void Tree::put(Node& list, Node& child, std::size_t index) {
  child.parent = &list;
  child.index = index;
  if (index == list.items.size())
    list.items.push_back(&child);
  else
    list.items[index] = &child;
}

void Tree::fail(bool from_set, std::uint32_t line, const std::string& path,
                std::string_view what) const {
  const std::string where = from_set ? "--set" : name + ':' + std::to_string(line);
  throw FileError(where + ": " + (path.empty() ? "" : path + ": ") + std::string(what));
}

void Tree::fail(const Node& node, std::string_view what) const {
  fail(node.from_set, node.line, path_of(node), what);
}

std::string shown(const Node& node) {
  using Kind = Node::Kind;
  if (node.kind == Kind::text) return '"' + printable(node.text) + '"';
  if (node.kind == Kind::list) return "a list";
  if (node.kind == Kind::object) return "an object";
  if (!node.text.empty()) return printable(node.text);
  if (node.kind == Kind::boolean) return node.truth ? "true" : "false";
  if (node.kind == Kind::integer)
    return (node.negative ? "-" : "") + std::to_string(node.magnitude);
  return "null";
}

/// The line of the last character that the parser has taken. After a number the parser has taken
/// one character too many; if that is the end of the line, the next line is not counted yet.
struct LineCount {
  std::uint32_t line = 1;
  bool line_ended = false;
};

/// An input iterator over text that keeps a LineCount.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, LineCount* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (count_->line_ended) ++count_->line;
    count_->line_ended = *at_ == '\n';
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  LineCount* count_;
};

/// Builds the tree from the parser's events, and converts its errors to FileError. Every event
/// returns true to continue; mistakes are thrown.
class Reader {
 public:
  /// `from_set`: the text is a value from the command line, not the file.
  Reader(Tree& tree, std::string_view text, bool from_set)
      : tree_(tree), text_(text), from_set_(from_set) {}

  /// Throws FileError.
  Node* read() {
    const std::size_t zero = text_.find('\0');
    // The parser takes a zero byte as the end of the text and ignores the rest.
    if (zero != std::string_view::npos) syntax_error(zero, "unexpected zero byte");
    const char* begin = text_.data();
    nlohmann::json::sax_parse(CountingIterator(begin, &count_),
                              CountingIterator(begin + text_.size(), &count_), this,
                              nlohmann::json::input_format_t::json, true, !from_set_);
    return top_;
  }

  bool null() { return add(Node::Kind::null) != nullptr; }
  bool boolean(bool value) {
    add(Node::Kind::boolean)->truth = value;
    return true;
  }
  bool number_integer(std::int64_t value) {
    Node& node = *add(Node::Kind::integer);
    node.negative = value < 0;
    const auto bits = static_cast<std::uint64_t>(value);
    node.magnitude = node.negative ? 0 - bits : bits;
    node.real = static_cast<double>(value);
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    Node& node = *add(Node::Kind::integer);
    node.magnitude = value;
    node.real = static_cast<double>(value);
    return true;
  }
  bool number_float(double value, const std::string& typed) {
    Node& node = *add(Node::Kind::real);
    node.real = value;
    node.text = typed;
    return true;
  }
  bool string(std::string& value) {
    add(Node::Kind::text)->text = std::move(value);
    return true;
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*count*/) { return open(Node::Kind::object); }
  bool start_array(std::size_t /*count*/) { return open(Node::Kind::list); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    const Node& object = *open_.back();
    key_ = std::move(name);
    key_line_ = count_.line;
    if (const auto twin = object.members.find(key_); twin != object.members.end()) {
      const std::string first =
          from_set_ ? "" : ", first in line " + std::to_string(twin->second->key_line);
      tree_.fail(from_set_, count_.line, path_of(*twin->second), "is given twice" + first);
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*last*/,
                   const nlohmann::json::exception& error) {
    std::string what = error.what();
    // Keeps the reason only: "[..] parse error at ..: syntax error while parsing value - reason".
    if (const auto why = what.find(" - "); why != std::string::npos)
      what.erase(0, why + 3);
    else if (const auto id = what.find("] "); id != std::string::npos)
      what.erase(0, id + 2);
    const auto quote = what.find("; last read: '");
    if (quote != std::string::npos) what.erase(quote, what.rfind('\'') + 1 - quote);
    std::size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    const bool whole_token = what.starts_with("unexpected") || what.starts_with("number overflow");
    if (whole_token && at < text_.size()) at = token_start(at);
    syntax_error(at, printable(what, 120));
  }

 private:
  static constexpr std::size_t kDeepest = 32;

  Node* add(Node::Kind kind) {
    Node* node = tree_.create();
    node->kind = kind;
    node->line = count_.line;
    node->key_line = key_line_;
    node->from_set = from_set_;
    if (open_.empty())
      top_ = node;
    else if (open_.back()->kind == Node::Kind::object)
      Tree::put(*open_.back(), *node, key_);
    else
      Tree::put(*open_.back(), *node, open_.back()->items.size());
    return node;
  }
  bool open(Node::Kind kind) {
    if (open_.size() == kDeepest)
      tree_.fail(from_set_, count_.line, path_of(*open_.front()),
                 "is nested deeper than " + std::to_string(kDeepest) + " levels");
    open_.push_back(add(kind));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  /// The start of the token whose last character is at `end`. Errors give the start's position.
  [[nodiscard]] std::size_t token_start(std::size_t end) const {
    const auto in_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '+' || c == '.';
    };
    std::size_t at = end;
    if (text_[end] == '"') {
      const auto escaped = [&](std::size_t i) {
        std::size_t slashes = 0;
        while (slashes < i && text_[i - slashes - 1] == '\\') ++slashes;
        return slashes % 2 == 1;
      };
      while (at > 0 && (at == end || text_[at] != '"' || escaped(at))) --at;
    } else if (in_word(text_[end])) {
      while (at > 0 && in_word(text_[at - 1])) --at;
    }
    return at;
  }

  [[noreturn]] void syntax_error(std::size_t at, std::string_view what) const {
    if (from_set_) throw FileError(std::string(what));
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto column = at - (before.rfind('\n') + 1) + 1;  // rfind's npos + 1 is 0
    throw FileError(tree_.name + ':' + std::to_string(line) + ':' + std::to_string(column) + ": " +
                    std::string(what));
  }

  Tree& tree_;
  std::string_view text_;
  bool from_set_;
  LineCount count_;
  std::string key_;
  std::uint32_t key_line_ = 1;
  std::vector<Node*> open_;
  Node* top_ = nullptr;
};

Node* read_json(Tree& tree, std::string_view text, bool from_set) {
  return Reader(tree, text, from_set).read();
}

}  // namespace mrc::inline v0_1::json_file::detail

namespace mrc::inline v0_1::json_file {

File File::read(const std::string& path, std::string_view kind) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  std::string text(kLargestFile + 1, '\0');
  if (file) text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (!file || std::ferror(file.get()))
    throw FileError(path + ": can't be read: " + std::generic_category().message(errno));
  if (text.size() > kLargestFile)
    throw FileError(path + ": is longer than 1 MiB, so it is no " + std::string(kind));
  return parse(path, text);
}

File File::parse(std::string name, std::string_view text) {
  File file;
  file.tree_->name = std::move(name);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    file.tree_->fail(false, 1, "", "is empty, must have an object");
  file.tree_->root = detail::read_json(*file.tree_, text, false);
  if (file.tree_->root->kind != detail::Node::Kind::object)
    file.tree_->fail(*file.tree_->root,
                     "is " + detail::shown(*file.tree_->root) + ", must be an object");
  return file;
}

std::vector<File::Step> File::split_path(std::string_view path) {
  const auto malformed = [&] {
    throw FileError("--set: '" + printable(path) + "' is no path of a field, such as faults[0].at");
  };
  std::vector<Step> steps;
  std::string_view rest = path;
  while (steps.empty() || !rest.empty()) {
    if (!rest.empty() && rest[0] == '[' && !steps.empty()) {
      Step& step = steps.emplace_back();
      const char* const end = rest.data() + rest.size();
      const auto [stop, failed] = std::from_chars(rest.data() + 1, end, step.index);
      if (failed != std::errc{} || stop == end || *stop != ']') malformed();
      rest.remove_prefix(static_cast<std::size_t>(stop + 1 - rest.data()));
    } else {
      if (!steps.empty()) {
        if (rest[0] != '.') malformed();
        rest.remove_prefix(1);
      }
      const std::size_t length = std::min(rest.find_first_of(".["), rest.size());
      if (length == 0) malformed();
      steps.push_back({std::string(rest.substr(0, length))});
      rest.remove_prefix(length);
    }
  }
  return steps;
}

detail::Node* File::value_of(std::string_view path, std::string_view text) {
  Node* node = nullptr;
  try {
    node = detail::read_json(*tree_, text, true);
  } catch (const FileError& error) {
    // Words and values with units need no quotes; a text that begins like JSON must be valid JSON.
    std::string_view what = error.what();
    if (what.starts_with("--set: ")) what.remove_prefix(7);
    if (text.find_first_of("{[\"") == text.find_first_not_of(" \t") && !text.empty())
      throw FileError("--set: " + printable(path, 80) + ": " + std::string(what));
    node = tree_->create();
    node->kind = Kind::text;
    node->from_set = true;
    node->text = text;
  }
  // Kept as typed: the field may be a text that looks like a number.
  if (node->kind != Kind::text) node->text = text;
  return node;
}

void File::put(Node& parent, const Step& step, Node& child) {
  const Kind kind = step.name.empty() ? Kind::list : Kind::object;
  if (parent.kind != kind)
    tree_->fail(
        true, 0, detail::path_of(parent),
        "is " + detail::shown(parent) + ", not " + (kind == Kind::list ? "a list" : "an object"));
  if (kind == Kind::object)
    detail::Tree::put(parent, child, step.name);
  else if (step.index <= parent.items.size())
    detail::Tree::put(parent, child, step.index);
  else
    tree_->fail(true, 0, detail::path_of(parent) + '[' + std::to_string(step.index) + ']',
                "the list has " + std::to_string(parent.items.size()) + " elements");
}

void File::override(std::string_view path, std::string_view text) {
  const std::vector<Step> steps = split_path(path);
  Node* value = value_of(path, text);
  Node* parent = tree_->root;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const Step& step = steps[i];
    Node* next = nullptr;
    if (!step.name.empty() && parent->members.contains(step.name))
      next = parent->members.find(step.name)->second;
    if (step.name.empty() && step.index < parent->items.size()) next = parent->items[step.index];
    if (next == nullptr) {
      next = tree_->create();
      next->kind = steps[i + 1].name.empty() ? Kind::list : Kind::object;
      next->from_set = true;
      put(*parent, step, *next);
    }
    parent = next;
  }
  put(*parent, steps.back(), *value);
}

}  // namespace mrc::inline v0_1::json_file
