// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/json/error.hpp"
#include "mrc/json/text.hpp"

/// The values of a file and where they were written.
namespace mrc::inline v0_1::json_file::detail {

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
[[nodiscard]] inline std::string path_of(const Node& node) {
  if (node.parent == nullptr) return {};
  std::string path = path_of(*node.parent);
  if (node.parent->kind == Node::Kind::list) return path + '[' + std::to_string(node.index) + ']';
  return path + (path.empty() ? "" : ".") + printable(node.key);
}

/// All values of a file. Nodes stay where they are.
struct Tree {
  std::string name;
  std::deque<Node> nodes;
  Node* root = nullptr;

  Node* create() {
    Node& node = nodes.emplace_back();
    node.order = nodes.size();
    return &node;
  }
  static void put(Node& object, Node& child, std::string_view key) {
    child.parent = &object;
    child.key = key;
    object.members.insert_or_assign(std::string(key), &child);
  }
  static void put(Node& list, Node& child, std::size_t index) {
    child.parent = &list;
    child.index = index;
    if (index == list.items.size())
      list.items.push_back(&child);
    else
      list.items[index] = &child;
  }

  /// Throws the error of a field, which stands in `line` unless it came from the command line.
  [[noreturn]] void fail(bool from_set, std::uint32_t line, const std::string& path,
                         std::string_view what) const {
    const std::string where = from_set ? "--set" : name + ':' + std::to_string(line);
    throw FileError(where + ": " + (path.empty() ? "" : path + ": ") + std::string(what));
  }
  [[noreturn]] void fail(const Node& node, std::string_view what) const {
    fail(node.from_set, node.line, path_of(node), what);
  }
};

/// The value as the message of an error shows it.
[[nodiscard]] inline std::string shown(const Node& node) {
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

}  // namespace mrc::inline v0_1::json_file::detail
