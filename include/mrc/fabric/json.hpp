// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::json_file {

/// What is wrong with a file: what() is "file.json:12: topology.planes: is 99, must be 1 to 32".
/// Values given on the command line have "--set" in place of file and line; errors of JSON itself
/// have "file.json:12:5" and no field.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Texts of the messages about a file.

/// Names in alphabetical order.
using Names = std::set<std::string, std::less<>>;

/// Text as it can stand in a message: no control characters, and "..." in place of what is beyond
/// `limit` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 40);

/// A number as a person writes it: 100000 and 0.001, and powers of ten only where it is long.
[[nodiscard]] std::string number_text(double number);

/// "0x00f0".
[[nodiscard]] std::string hex_text(std::uint16_t number);

/// What hex_text() writes, with one to four digits. Nothing for any other text.
[[nodiscard]] std::optional<std::uint16_t> parse_hex(std::string_view text);

/// "a, b, c".
template <class Range>
[[nodiscard]] std::string joined(const Range& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Of all `names` the one that `typed` is most likely a slip of; empty if none is near.
[[nodiscard]] std::string nearest_name(std::string_view typed, const Names& names);

}  // namespace mrc::inline v0_1::json_file

namespace mrc::inline v0_1::json_file::detail {

/// The values of a file and where they were written.

/// One value.
struct Node {
  enum class Kind : std::uint8_t { null, boolean, integer, real, text, list, object };

  Kind kind = Kind::null;
  bool truth = false;
  bool negative = false;        ///< of an integer
  bool from_set = false;        ///< given on the command line
  std::uint32_t line = 0;       ///< of the value's end if it is a number or text, else its start
  std::uint32_t key_line = 0;   ///< of the name in front of it
  std::uint64_t magnitude = 0;  ///< of an integer
  double real = 0;              ///< of integers too
  std::size_t order = 0;        ///< of appearance
  std::size_t index = 0;        ///< in a list
  const Node* parent = nullptr;
  std::string key;   ///< in an object
  std::string text;  ///< a text; for values from the command line and reals, as typed
  std::vector<Node*> items;
  std::map<std::string, Node*, std::less<>> members;
  Names asked;  ///< names that the program knows here
};

/// "topology.planes", "faults[2].at"; empty for the whole file.
[[nodiscard]] std::string path_of(const Node& node);

/// All values of a file. Nodes stay where they are.
struct Tree {
  std::string name;
  std::deque<Node> nodes;
  Node* root = nullptr;

  Node* create();
  /// Puts a value into an object under `key`, or into a list at `index`, in place of what is there.
  static void put(Node& object, Node& child, std::string_view key);
  static void put(Node& list, Node& child, std::size_t index);

  /// Throws the error of a field, which stands in `line` unless it came from the command line.
  [[noreturn]] void fail(bool from_set, std::uint32_t line, const std::string& path,
                         std::string_view what) const;
  [[noreturn]] void fail(const Node& node, std::string_view what) const;
};

/// The value as the message of an error shows it.
[[nodiscard]] std::string shown(const Node& node);

/// Values of a file as C++ values, checked against limits. read_x() throws the error of the field;
/// parse_x() returns nothing if the text is malformed.

/// Bytes: "512B", "64KiB", "64K" (binary both), "1.5MB" (decimal), "4096". Whole bytes only.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "64KiB", "1000B": with the largest binary unit that divides it.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// "1 to 32", "1 or more". The largest value of the type stands for no limit.
template <class T, class Format>
[[nodiscard]] std::string range_text(T min, T max, Format format) {
  const bool open =
      max == std::numeric_limits<T>::max() || max == std::numeric_limits<T>::infinity();
  return open ? format(min) + " or more" : format(min) + " to " + format(max);
}

/// Whole numbers; reals too where they are whole, as 1e6 is.
template <std::integral T>
[[nodiscard]] T read_integer(const Tree& tree, const Node& node, T min, T max) {
  const auto range = [&] { return range_text(min, max, [](T x) { return std::to_string(x); }); };
  bool negative = node.negative;
  std::uint64_t magnitude = node.magnitude;
  bool fits = true;
  if (node.kind == Node::Kind::real && node.real == std::trunc(node.real)) {
    constexpr double kTwo64 = 18446744073709551616.0;
    negative = node.real < 0;
    fits = std::abs(node.real) < kTwo64;
    if (fits) magnitude = static_cast<std::uint64_t>(std::abs(node.real));
  } else if (node.kind != Node::Kind::integer) {
    tree.fail(node, "is " + shown(node) + ", must be a whole number, " + range());
  }
  // Compares magnitudes: a negative value needs only the negative part of the range, another one
  // only the other part.
  const auto size = [](T x) {
    const auto bits = static_cast<std::uint64_t>(x);
    return std::cmp_less(x, 0) ? 0 - bits : bits;
  };
  if (negative && magnitude > 0)
    fits = fits && std::cmp_less(min, 0) && magnitude <= size(min) &&
           (std::cmp_greater_equal(max, 0) || magnitude >= size(max));
  else
    fits = fits && std::cmp_greater_equal(max, magnitude) && std::cmp_less_equal(min, magnitude);
  if (!fits) tree.fail(node, "is " + shown(node) + ", must be " + range());
  return static_cast<T>(negative ? 0 - magnitude : magnitude);
}

/// A 16-bit number, or one as hexadecimal text, which JSON lacks: "0x0f00".
[[nodiscard]] std::uint16_t read_hex(const Tree& tree, const Node& node);

/// The number of something that has one and is called `prefix` and its number: "h3" with prefix
/// "h". The number alone means the same.
[[nodiscard]] unsigned read_index(const Tree& tree, const Node& node, std::string_view prefix,
                                  unsigned max);

[[nodiscard]] double read_number(const Tree& tree, const Node& node, double min, double max);

/// A time with its unit, "1.5us"; zero needs none.
[[nodiscard]] Duration read_duration(const Tree& tree, const Node& node, Duration min,
                                     Duration max);

[[nodiscard]] std::uint64_t read_bytes(const Tree& tree, const Node& node, std::uint64_t min,
                                       std::uint64_t max);

[[nodiscard]] bool read_boolean(const Tree& tree, const Node& node);

/// What came from the command line is text even where it reads as a number.
[[nodiscard]] std::string read_text(const Tree& tree, const Node& node);

}  // namespace mrc::inline v0_1::json_file::detail

namespace mrc::inline v0_1::json_file {

/// One object of a file. Each accessor names a field and the limits of its value (both included);
/// a field for which a default is given may be missing, and the default is not checked against the
/// limits. All throw FileError with file, line and path of the field. finish()
/// reports fields that no accessor asked for. A light handle on the file, which it keeps alive. One
/// thread at a time.
class Object {
 public:
  /// Is the field there? Makes its name known, too.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Is it a list? Makes its name known, too.
  [[nodiscard]] bool is_list(std::string_view name) const;

  /// Is it a number? Makes its name known, too.
  [[nodiscard]] bool is_number(std::string_view name) const;

  /// A nested object. A missing one reads as an empty object.
  [[nodiscard]] Object object(std::string_view name) const;
  /// A list of objects, `min` to `max` of them. A missing list is an empty one.
  [[nodiscard]] std::vector<Object> array(std::string_view name, std::size_t min = 0,
                                          std::size_t max = 100'000) const;

  /// A whole number. `integer<std::uint64_t>("seed", ...)` for types other than int64.
  template <std::integral T = std::int64_t>
  [[nodiscard]] T integer(std::string_view name, std::type_identity_t<T> min,
                          std::type_identity_t<T> max) const {
    return detail::read_integer<T>(*tree_, required(name), min, max);
  }
  /// The same; `fallback` if the field is missing.
  template <std::integral T = std::int64_t>
  [[nodiscard]] T integer(std::string_view name, std::type_identity_t<T> min,
                          std::type_identity_t<T> max, std::type_identity_t<T> fallback) const {
    return has(name) ? integer<T>(name, min, max) : fallback;
  }
  /// Whole numbers. In all accessors of lists, a single value in the file counts as a list of one.
  template <std::integral T = std::int64_t>
  [[nodiscard]] std::vector<T> integers(std::string_view name, std::type_identity_t<T> min,
                                        std::type_identity_t<T> max,
                                        std::vector<T> fallback = {}) const {
    return list<T>(name, std::move(fallback), [&](const Node& node) {
      return detail::read_integer<T>(*tree_, node, min, max);
    });
  }

  /// The number of something that has one, by its name: "h3" with prefix "h". 3 alone is read, too.
  [[nodiscard]] unsigned index(std::string_view name, std::string_view prefix, unsigned max) const;
  /// The same; `fallback` if the field is missing.
  [[nodiscard]] unsigned index(std::string_view name, std::string_view prefix, unsigned max,
                               unsigned fallback) const;
  /// A list of them; empty if the field is missing.
  [[nodiscard]] std::vector<unsigned> indices(std::string_view name, std::string_view prefix,
                                              unsigned max) const;

  /// A 16-bit number, also as hexadecimal text: 256, "0x0100".
  [[nodiscard]] std::uint16_t hex(std::string_view name, std::uint16_t fallback) const;

  /// A number, with or without a fraction.
  [[nodiscard]] double number(std::string_view name, double min, double max) const;
  /// The same; `fallback` if the field is missing.
  [[nodiscard]] double number(std::string_view name, double min, double max, double fallback) const;
  /// A list of numbers; `fallback` if the field is missing.
  [[nodiscard]] std::vector<double> numbers(std::string_view name, double min, double max,
                                            std::vector<double> fallback = {}) const;

  /// A time: "500ns", "1.5us", "2ms", "3s", 0.
  [[nodiscard]] Duration duration(std::string_view name, Duration min, Duration max) const;
  /// The same; `fallback` if the field is missing.
  [[nodiscard]] Duration duration(std::string_view name, Duration min, Duration max,
                                  Duration fallback) const;
  /// A list of times; `fallback` if the field is missing.
  [[nodiscard]] std::vector<Duration> durations(std::string_view name, Duration min, Duration max,
                                                std::vector<Duration> fallback = {}) const;

  /// Bytes: 4096, "512B", "64KiB" or "64K" (binary), "1MB" (decimal).
  [[nodiscard]] std::uint64_t bytes(std::string_view name, std::uint64_t min,
                                    std::uint64_t max) const;
  /// The same; `fallback` if the field is missing.
  [[nodiscard]] std::uint64_t bytes(std::string_view name, std::uint64_t min, std::uint64_t max,
                                    std::uint64_t fallback) const;
  /// A list of sizes in bytes; `fallback` if the field is missing.
  [[nodiscard]] std::vector<std::uint64_t> sizes(std::string_view name, std::uint64_t min,
                                                 std::uint64_t max,
                                                 std::vector<std::uint64_t> fallback = {}) const;

  /// `true` or `false`.
  [[nodiscard]] bool boolean(std::string_view name) const;
  /// The same; `fallback` if the field is missing.
  [[nodiscard]] bool boolean(std::string_view name, bool fallback) const;

  /// A string.
  [[nodiscard]] std::string text(std::string_view name) const;
  /// The same; `fallback` if the field is missing.
  [[nodiscard]] std::string text(std::string_view name, std::string fallback) const;
  /// A list of strings; `fallback` if the field is missing.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name,
                                               std::vector<std::string> fallback = {}) const;

  /// One of some words.
  [[nodiscard]] std::string choice(std::string_view name,
                                   const std::vector<std::string>& allowed) const;
  /// The same; `fallback` if the field is missing.
  [[nodiscard]] std::string choice(std::string_view name, const std::vector<std::string>& allowed,
                                   std::string fallback) const;

  /// Throws the error of a field for a reason that the program found: "is after the end". If the
  /// field is missing, or `name` is empty, the line is that of this object.
  [[noreturn]] void fail(std::string_view name, std::string_view what) const;

  /// The same for an element of a list.
  [[noreturn]] void fail(std::string_view name, std::size_t index, std::string_view what) const;

  /// Throws if this object, or one reached from it, has a field that no accessor asked for. To be
  /// called on the root after everything has been read.
  void finish() const;

 private:
  friend class File;
  using Node = detail::Node;
  using Kind = Node::Kind;

  Object(std::shared_ptr<detail::Tree> tree, Node& node) : tree_(std::move(tree)), node_(&node) {}

  [[nodiscard]] Object as_object(Node& node) const;
  [[nodiscard]] Node* find(std::string_view name) const;
  [[nodiscard]] const Node& required(std::string_view name) const;
  [[nodiscard]] std::string path_to(std::string_view name) const;
  [[noreturn]] void missing(std::string_view name) const;

  template <class T, class Read>
  [[nodiscard]] std::vector<T> list(std::string_view name, std::vector<T> fallback,
                                    Read read) const {
    const Node* node = find(name);
    if (node == nullptr) return fallback;
    std::vector<T> values;
    if (node->kind != Kind::list) {
      values.push_back(read(*node));
    } else {
      if (node->items.empty()) tree_->fail(*node, "is an empty list");
      for (const Node* item : node->items) values.push_back(read(*item));
    }
    return values;
  }

  /// The first field, in the order of the file, that was not asked for, and the object it is in.
  static const Node* first_unknown(const Node& node, const Node*& in);

  std::shared_ptr<detail::Tree> tree_;
  Node* node_;
};

}  // namespace mrc::inline v0_1::json_file

namespace mrc::inline v0_1::json_file::detail {

/// JSON with comments into a tree whose values know their lines, by nlohmann::json.

/// The values of `text`, added to `tree`; returns the outermost. `from_set`: the text is a value
/// from the command line, not the file, and has no comments. Throws FileError.
[[nodiscard]] Node* read_json(Tree& tree, std::string_view text, bool from_set);

}  // namespace mrc::inline v0_1::json_file::detail

namespace mrc::inline v0_1::json_file {

/// A file that a person writes for a program: JSON in which // and /* */ comments are allowed and
/// the outermost value is an object. Every mistake in it is a FileError. One thread at a time.
class File {
 public:
  /// The longest file that is read, in bytes; a longer one is an error.
  static constexpr std::size_t kLargestFile = 1 << 20;

  /// Reads a file. Errors name it `path`; `kind` is what it should be: "scenario".
  [[nodiscard]] static File read(const std::string& path, std::string_view kind);

  /// Reads text that errors call `name`.
  [[nodiscard]] static File parse(std::string name, std::string_view text);

  /// Sets the field at `path`, such as "topology.planes" or "faults[0].at", to what `text` says:
  /// a JSON value, or else the text itself. Missing objects on the path are created; an index equal
  /// to the length of a list appends to it. To be called before anything is read.
  void override(std::string_view path, std::string_view text);

  /// The outermost object. It keeps the contents of the file alive.
  [[nodiscard]] Object root() const { return {tree_, *tree_->root}; }

 private:
  File() = default;

  using Node = detail::Node;
  using Kind = Node::Kind;

  /// A name, or an index if the name is empty.
  struct Step {
    std::string name;
    std::size_t index = 0;
  };

  [[nodiscard]] static std::vector<Step> split_path(std::string_view path);
  [[nodiscard]] Node* value_of(std::string_view path, std::string_view text);
  void put(Node& parent, const Step& step, Node& child);

  std::shared_ptr<detail::Tree> tree_ = std::make_shared<detail::Tree>();
};

}  // namespace mrc::inline v0_1::json_file
