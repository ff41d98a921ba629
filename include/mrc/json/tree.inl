// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/json/tree.hpp"

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

}  // namespace mrc::inline v0_1::json_file::detail
