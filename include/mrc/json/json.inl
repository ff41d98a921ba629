// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/json/json.hpp"

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
