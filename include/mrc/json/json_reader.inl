// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "mrc/json/json_reader.hpp"

namespace mrc::inline v0_1::json_file::detail {

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
