// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc_sim/scenario_reader.hpp"
#include "mrc_sim/scenario_tree.hpp"
#include "mrc_sim/scenario_value.hpp"

namespace mrc::bench {

/// One object of a scenario. Each accessor names a field, the limits of its value (both included)
/// and, unless the field has to be there, its default, which is not held to the limits. All throw
/// ScenarioError with file, line and path of the field. Asking for a name makes it known to
/// finish(). A light handle on the scenario, which it keeps alive; not for several threads.
class ScenarioObject {
 public:
  /// Is the field there? Makes its name known, too.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// An object inside. One that is missing reads as an empty one: only defaults, and an error for
  /// a field that has to be there.
  [[nodiscard]] ScenarioObject object(std::string_view name) const {
    ScenarioNode* node = find(name);
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
  [[nodiscard]] std::vector<ScenarioObject> array(std::string_view name, std::size_t min = 0,
                                                  std::size_t max = 100'000) const {
    std::vector<ScenarioObject> objects;
    const ScenarioNode* list = find(name);
    if (list == nullptr && min > 0) missing(name);
    if (list == nullptr) return objects;
    if (list->kind != Kind::list)
      tree_->fail(*list, fmt::format("is {}, must be a list of objects", detail::shown(*list)));
    if (list->items.size() < min || list->items.size() > max)
      tree_->fail(*list,
                  fmt::format("has {} elements, must have {} to {}", list->items.size(), min, max));
    for (ScenarioNode* item : list->items) objects.push_back(as_object(*item));
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
    return list<T>(name, std::move(fallback), [&](const ScenarioNode& node) {
      return detail::read_integer<T>(*tree_, node, min, max);
    });
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
    return list<double>(name, std::move(fallback), [&](const ScenarioNode& node) {
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
    return list<Duration>(name, std::move(fallback), [&](const ScenarioNode& node) {
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
    return list<std::uint64_t>(name, std::move(fallback), [&](const ScenarioNode& node) {
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
    return list<std::string>(name, std::move(fallback), [&](const ScenarioNode& node) {
      return detail::read_text(*tree_, node);
    });
  }

  /// One of some words.
  [[nodiscard]] std::string choice(std::string_view name,
                                   const std::vector<std::string>& allowed) const {
    const ScenarioNode& node = required(name);
    if (node.kind == Kind::text || node.from_set)
      for (const std::string& word : allowed)
        if (word == node.text) return word;
    tree_->fail(node, fmt::format("is {}, must be {}{}", detail::shown(node),
                                  allowed.size() > 1 ? "one of " : "", fmt::join(allowed, ", ")));
  }
  [[nodiscard]] std::string choice(std::string_view name, const std::vector<std::string>& allowed,
                                   std::string fallback) const {
    return has(name) ? choice(name, allowed) : std::move(fallback);
  }

  /// Throws the error of a field for a reason that only the program knows: "is after the end". An
  /// empty name, or one that is not there, stands for the object.
  [[noreturn]] void fail(std::string_view name, std::string_view what) const {
    const ScenarioNode* node = name.empty() ? nullptr : find(name);
    if (node != nullptr) tree_->fail(*node, what);
    tree_->fail(node_->from_set, node_->line, path_to(name), what);
  }

  /// Throws if the file has a field in here, or in what was reached from here, that no accessor
  /// asked for. Call it on the root when everything has been read.
  void finish() const {
    const ScenarioNode* object = nullptr;
    const ScenarioNode* unknown = first_unknown(*node_, object);
    if (unknown == nullptr) return;
    const std::string near = detail::nearest_name(unknown->key, object->asked);
    std::string what = "unknown field";
    if (!near.empty())
      what += fmt::format("; did you mean \"{}\"?", near);
    else if (!object->asked.empty())
      what += fmt::format("; known here: {}", fmt::join(object->asked, ", "));
    tree_->fail(unknown->from_set, unknown->key_line, detail::path_of(*unknown), what);
  }

 private:
  friend class ScenarioFile;
  using ScenarioNode = detail::ScenarioNode;
  using Kind = ScenarioNode::Kind;

  ScenarioObject(std::shared_ptr<detail::ScenarioTree> tree, ScenarioNode& node)
      : tree_(std::move(tree)), node_(&node) {}

  [[nodiscard]] ScenarioObject as_object(ScenarioNode& node) const {
    if (node.kind != Kind::object)
      tree_->fail(node, fmt::format("is {}, must be an object", detail::shown(node)));
    return {tree_, node};
  }
  [[nodiscard]] ScenarioNode* find(std::string_view name) const {
    node_->asked.emplace(name);
    const auto member = node_->members.find(name);
    return member == node_->members.end() ? nullptr : member->second;
  }
  [[nodiscard]] const ScenarioNode& required(std::string_view name) const {
    const ScenarioNode* node = find(name);
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
    const ScenarioNode* node = find(name);
    if (node == nullptr) return fallback;
    std::vector<T> values;
    if (node->kind != Kind::list) {
      values.push_back(read(*node));
    } else {
      if (node->items.empty()) tree_->fail(*node, "is an empty list");
      for (const ScenarioNode* item : node->items) values.push_back(read(*item));
    }
    return values;
  }

  /// The first field, in the order of the file, that was not asked for, and the object it is in.
  /// Below a field that was read as a value there is nothing to ask for.
  static const ScenarioNode* first_unknown(const ScenarioNode& node, const ScenarioNode*& in) {
    const ScenarioNode* first = nullptr;
    const auto consider = [&](const ScenarioNode* found, const ScenarioNode* object) {
      if (found == nullptr || (first != nullptr && first->order < found->order)) return;
      first = found;
      in = object;
    };
    for (const auto& [name, member] : node.members)
      if (!node.asked.contains(name)) consider(member, &node);
    const auto descend = [&](const ScenarioNode& child) {
      const ScenarioNode* object = nullptr;
      const ScenarioNode* found = first_unknown(child, object);
      consider(found, object);
    };
    for (const auto& [name, member] : node.members)
      if (node.asked.contains(name)) descend(*member);
    for (const ScenarioNode* item : node.items) descend(*item);
    return first;
  }

  std::shared_ptr<detail::ScenarioTree> tree_;
  ScenarioNode* node_;
};

/// A scenario: JSON in which // and /* */ comments are allowed and the outermost value is an
/// object. Everything that is wrong with it is a ScenarioError. Not for several threads.
class ScenarioFile {
 public:
  /// The longest file that is read. What is longer is no scenario but a mistake.
  static constexpr std::size_t kLargestFile = 1 << 20;

  /// Reads a file. `path` is what errors call it.
  [[nodiscard]] static ScenarioFile read(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                               &std::fclose);
    std::string text(kLargestFile + 1, '\0');
    if (file) text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (!file || std::ferror(file.get()))
      throw ScenarioError(path + ": can't be read: " + std::generic_category().message(errno));
    if (text.size() > kLargestFile)
      throw ScenarioError(path + ": is longer than 1 MiB, so it is no scenario");
    return parse(path, text);
  }

  /// Reads text that errors call `name`.
  [[nodiscard]] static ScenarioFile parse(std::string name, std::string_view text) {
    ScenarioFile file;
    file.tree_->name = std::move(name);
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
      file.tree_->fail(false, 1, "", "is empty, must have an object");
    file.tree_->root = detail::ScenarioReader(*file.tree_, text, false).read();
    if (file.tree_->root->kind != detail::ScenarioNode::Kind::object)
      file.tree_->fail(*file.tree_->root,
                       fmt::format("is {}, must be an object", detail::shown(*file.tree_->root)));
    return file;
  }

  /// Sets the field at `path`, such as "topology.planes" or "faults[0].at", to what `text` says:
  /// a JSON value, or else the text itself. Objects on the way are made if they are missing, and a
  /// list grows by the index behind its last. For use before anything is read.
  void override(std::string_view path, std::string_view text);

  [[nodiscard]] ScenarioObject root() const { return {tree_, *tree_->root}; }

 private:
  ScenarioFile() = default;

  using ScenarioNode = detail::ScenarioNode;
  using Kind = ScenarioNode::Kind;

  /// A name, or an index if the name is empty.
  struct Step {
    std::string name;
    std::size_t index = 0;
  };

  [[nodiscard]] static std::vector<Step> split_path(std::string_view path);
  [[nodiscard]] ScenarioNode* value_of(std::string_view path, std::string_view text);
  void put(ScenarioNode& parent, const Step& step, ScenarioNode& child);

  std::shared_ptr<detail::ScenarioTree> tree_ = std::make_shared<detail::ScenarioTree>();
};

inline std::vector<ScenarioFile::Step> ScenarioFile::split_path(std::string_view path) {
  const auto malformed = [&] {
    throw ScenarioError(fmt::format("--set: '{}' is no path of a field, such as faults[0].at",
                                    detail::printable(path)));
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

inline detail::ScenarioNode* ScenarioFile::value_of(std::string_view path, std::string_view text) {
  ScenarioNode* node = nullptr;
  try {
    node = detail::ScenarioReader(*tree_, text, true).read();
  } catch (const ScenarioError& error) {
    // Words and values with units need no quotes. What begins like JSON is meant as JSON.
    std::string_view what = error.what();
    if (what.starts_with("--set: ")) what.remove_prefix(7);
    if (text.find_first_of("{[\"") == text.find_first_not_of(" \t") && !text.empty())
      throw ScenarioError(fmt::format("--set: {}: {}", detail::printable(path, 80), what));
    node = tree_->create();
    node->kind = Kind::text;
    node->from_set = true;
    node->text = text;
  }
  // As typed, so that a name may look like a number.
  if (node->kind != Kind::text) node->text = text;
  return node;
}

inline void ScenarioFile::put(ScenarioNode& parent, const Step& step, ScenarioNode& child) {
  const Kind kind = step.name.empty() ? Kind::list : Kind::object;
  if (parent.kind != kind)
    tree_->fail(true, 0, detail::path_of(parent),
                fmt::format("is {}, not {}", detail::shown(parent),
                            kind == Kind::list ? "a list" : "an object"));
  if (kind == Kind::object)
    detail::ScenarioTree::put(parent, child, step.name);
  else if (step.index <= parent.items.size())
    detail::ScenarioTree::put(parent, child, step.index);
  else
    tree_->fail(true, 0, fmt::format("{}[{}]", detail::path_of(parent), step.index),
                fmt::format("the list has {} elements", parent.items.size()));
}

inline void ScenarioFile::override(std::string_view path, std::string_view text) {
  const std::vector<Step> steps = split_path(path);
  ScenarioNode* value = value_of(path, text);
  ScenarioNode* parent = tree_->root;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const Step& step = steps[i];
    ScenarioNode* next = nullptr;
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

}  // namespace mrc::bench
