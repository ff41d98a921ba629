// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc/json/tree.hpp"
#include "mrc/json/value.hpp"

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
