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

/// One object of a file. Each accessor names a field, the limits of its value (both included)
/// and, unless the field has to be there, its default, which is not held to the limits. All throw
/// FileError with file, line and path of the field. Asking for a name makes it known to
/// finish(). A light handle on the file, which it keeps alive; not for several threads.
class Object {
 public:
  /// Is the field there? Makes its name known, too.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Is it a list? Makes its name known, too.
  [[nodiscard]] bool is_list(std::string_view name) const {
    const Node* node = find(name);
    return node != nullptr && node->kind == Kind::list;
  }

  /// An object inside. One that is missing reads as an empty one: only defaults, and an error for
  /// a field that has to be there.
  [[nodiscard]] Object object(std::string_view name) const {
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
  /// A list of objects, `min` to `max` of them. A missing list is an empty one.
  [[nodiscard]] std::vector<Object> array(std::string_view name, std::size_t min = 0,
                                          std::size_t max = 100'000) const {
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

  /// A whole number. `integer<std::uint64_t>("seed", ...)` for types other than int64.
  template <std::integral T = std::int64_t>
  [[nodiscard]] T integer(std::string_view name, std::type_identity_t<T> min,
                          std::type_identity_t<T> max) const {
    return detail::read_integer<T>(*tree_, required(name), min, max);
  }
  template <std::integral T = std::int64_t>
  [[nodiscard]] T integer(std::string_view name, std::type_identity_t<T> min,
                          std::type_identity_t<T> max, std::type_identity_t<T> fallback) const {
    return has(name) ? integer<T>(name, min, max) : fallback;
  }
  /// Whole numbers. Here and below a list may be written as a single value, too.
  template <std::integral T = std::int64_t>
  [[nodiscard]] std::vector<T> integers(std::string_view name, std::type_identity_t<T> min,
                                        std::type_identity_t<T> max,
                                        std::vector<T> fallback = {}) const {
    return list<T>(name, std::move(fallback), [&](const Node& node) {
      return detail::read_integer<T>(*tree_, node, min, max);
    });
  }

  /// A 16-bit number, also as hexadecimal text: 256, "0x0100".
  [[nodiscard]] std::uint16_t hex(std::string_view name, std::uint16_t fallback) const {
    return has(name) ? detail::read_hex(*tree_, required(name)) : fallback;
  }

  [[nodiscard]] double number(std::string_view name, double min, double max) const {
    return detail::read_number(*tree_, required(name), min, max);
  }
  [[nodiscard]] double number(std::string_view name, double min, double max,
                              double fallback) const {
    return has(name) ? number(name, min, max) : fallback;
  }
  [[nodiscard]] std::vector<double> numbers(std::string_view name, double min, double max,
                                            std::vector<double> fallback = {}) const {
    return list<double>(name, std::move(fallback), [&](const Node& node) {
      return detail::read_number(*tree_, node, min, max);
    });
  }

  /// A time: "500ns", "1.5us", "2ms", "3s", 0.
  [[nodiscard]] Duration duration(std::string_view name, Duration min, Duration max) const {
    return detail::read_duration(*tree_, required(name), min, max);
  }
  [[nodiscard]] Duration duration(std::string_view name, Duration min, Duration max,
                                  Duration fallback) const {
    return has(name) ? duration(name, min, max) : fallback;
  }
  [[nodiscard]] std::vector<Duration> durations(std::string_view name, Duration min, Duration max,
                                                std::vector<Duration> fallback = {}) const {
    return list<Duration>(name, std::move(fallback), [&](const Node& node) {
      return detail::read_duration(*tree_, node, min, max);
    });
  }

  /// Bytes: 4096, "512B", "64KiB" or "64K" (binary), "1MB" (decimal).
  [[nodiscard]] std::uint64_t bytes(std::string_view name, std::uint64_t min,
                                    std::uint64_t max) const {
    return detail::read_bytes(*tree_, required(name), min, max);
  }
  [[nodiscard]] std::uint64_t bytes(std::string_view name, std::uint64_t min, std::uint64_t max,
                                    std::uint64_t fallback) const {
    return has(name) ? bytes(name, min, max) : fallback;
  }
  [[nodiscard]] std::vector<std::uint64_t> sizes(std::string_view name, std::uint64_t min,
                                                 std::uint64_t max,
                                                 std::vector<std::uint64_t> fallback = {}) const {
    return list<std::uint64_t>(name, std::move(fallback), [&](const Node& node) {
      return detail::read_bytes(*tree_, node, min, max);
    });
  }

  [[nodiscard]] bool boolean(std::string_view name) const {
    return detail::read_boolean(*tree_, required(name));
  }
  [[nodiscard]] bool boolean(std::string_view name, bool fallback) const {
    return has(name) ? boolean(name) : fallback;
  }

  [[nodiscard]] std::string text(std::string_view name) const {
    return detail::read_text(*tree_, required(name));
  }
  [[nodiscard]] std::string text(std::string_view name, std::string fallback) const {
    return has(name) ? text(name) : std::move(fallback);
  }
  [[nodiscard]] std::vector<std::string> texts(std::string_view name,
                                               std::vector<std::string> fallback = {}) const {
    return list<std::string>(name, std::move(fallback),
                             [&](const Node& node) { return detail::read_text(*tree_, node); });
  }

  /// One of some words.
  [[nodiscard]] std::string choice(std::string_view name,
                                   const std::vector<std::string>& allowed) const {
    const Node& node = required(name);
    if (node.kind == Kind::text || node.from_set)
      for (const std::string& word : allowed)
        if (word == node.text) return word;
    tree_->fail(node, "is " + detail::shown(node) + ", must be " +
                          (allowed.size() > 1 ? "one of " : "") + joined(allowed));
  }
  [[nodiscard]] std::string choice(std::string_view name, const std::vector<std::string>& allowed,
                                   std::string fallback) const {
    return has(name) ? choice(name, allowed) : std::move(fallback);
  }

  /// Throws the error of a field for a reason that only the program knows: "is after the end". An
  /// empty name, or one that is not there, stands for the object.
  [[noreturn]] void fail(std::string_view name, std::string_view what) const {
    const Node* node = name.empty() ? nullptr : find(name);
    if (node != nullptr) tree_->fail(*node, what);
    tree_->fail(node_->from_set, node_->line, path_to(name), what);
  }

  /// The same for an element of a list.
  [[noreturn]] void fail(std::string_view name, std::size_t index, std::string_view what) const {
    const Node* node = find(name);
    if (node != nullptr && index < node->items.size()) tree_->fail(*node->items[index], what);
    fail(name, what);
  }

  /// Throws if the file has a field in here, or in what was reached from here, that no accessor
  /// asked for. Call it on the root when everything has been read.
  void finish() const {
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

 private:
  friend class File;
  using Node = detail::Node;
  using Kind = Node::Kind;

  Object(std::shared_ptr<detail::Tree> tree, Node& node) : tree_(std::move(tree)), node_(&node) {}

  [[nodiscard]] Object as_object(Node& node) const {
    if (node.kind != Kind::object)
      tree_->fail(node, "is " + detail::shown(node) + ", must be an object");
    return {tree_, node};
  }
  [[nodiscard]] Node* find(std::string_view name) const {
    node_->asked.emplace(name);
    const auto member = node_->members.find(name);
    return member == node_->members.end() ? nullptr : member->second;
  }
  [[nodiscard]] const Node& required(std::string_view name) const {
    const Node* node = find(name);
    if (node == nullptr) missing(name);
    return *node;
  }
  [[nodiscard]] std::string path_to(std::string_view name) const {
    const std::string path = detail::path_of(*node_);
    return path + (path.empty() || name.empty() ? "" : ".") + std::string(name);
  }
  [[noreturn]] void missing(std::string_view name) const {
    tree_->fail(node_->from_set, node_->line, path_to(name), "is missing");
  }

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
  /// Below a field that was read as a value there is nothing to ask for.
  static const Node* first_unknown(const Node& node, const Node*& in) {
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

  std::shared_ptr<detail::Tree> tree_;
  Node* node_;
};

}  // namespace mrc::inline v0_1::json_file
