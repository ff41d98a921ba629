// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <system_error>

#include "mrc/json/file.hpp"
#include "mrc/json/json_reader.hpp"

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
