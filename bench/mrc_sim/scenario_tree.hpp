// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mrc::bench {

/// What is wrong with a scenario: what() is "file.json:12: topology.planes: is 99, must be 1 to
/// 32". Values given on the command line have "--set" in place of file and line; errors of JSON
/// itself have "file.json:12:5" and no field.
class ScenarioError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// One value of a scenario and where it was written.
struct ScenarioNode {
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
  const ScenarioNode* parent = nullptr;
  std::string key;   ///< in an object
  std::string text;  ///< a text; for values from the command line and reals, as typed
  std::vector<ScenarioNode*> items;
  std::map<std::string, ScenarioNode*, std::less<>> members;
  std::set<std::string, std::less<>> asked;  ///< names that the program knows here
};

/// Text as it can stand in a message: no control characters, not longer than `limit` bytes.
[[nodiscard]] inline std::string printable(std::string_view text, std::size_t limit = 40) {
  std::string out;
  for (const char c : text.substr(0, limit))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() <= limit) return out;
  // No half characters at the cut.
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
  if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
  return out + "...";
}

/// "topology.planes", "faults[2].at"; empty for the whole scenario.
[[nodiscard]] inline std::string path_of(const ScenarioNode& node) {
  if (node.parent == nullptr) return {};
  std::string path = path_of(*node.parent);
  if (node.parent->kind == ScenarioNode::Kind::list) return path + fmt::format("[{}]", node.index);
  return path + (path.empty() ? "" : ".") + printable(node.key);
}

/// All values of a scenario. Nodes stay where they are.
struct ScenarioTree {
  std::string name;
  std::deque<ScenarioNode> nodes;
  ScenarioNode* root = nullptr;

  ScenarioNode* create() {
    ScenarioNode& node = nodes.emplace_back();
    node.order = nodes.size();
    return &node;
  }
  static void put(ScenarioNode& object, ScenarioNode& child, std::string_view key) {
    child.parent = &object;
    child.key = key;
    object.members.insert_or_assign(std::string(key), &child);
  }
  static void put(ScenarioNode& list, ScenarioNode& child, std::size_t index) {
    child.parent = &list;
    child.index = index;
    if (index == list.items.size())
      list.items.push_back(&child);
    else
      list.items[index] = &child;
  }

  /// Throws the error of a field, which stands in `line` unless it came from the command line.
  [[noreturn]] void fail(bool from_set, std::uint32_t line, std::string_view path,
                         std::string_view what) const {
    const std::string where = from_set ? "--set" : fmt::format("{}:{}", name, line);
    throw ScenarioError(path.empty() ? fmt::format("{}: {}", where, what)
                                     : fmt::format("{}: {}: {}", where, path, what));
  }
  [[noreturn]] void fail(const ScenarioNode& node, std::string_view what) const {
    fail(node.from_set, node.line, path_of(node), what);
  }
};

/// The value as the message of an error shows it.
[[nodiscard]] inline std::string shown(const ScenarioNode& node) {
  using Kind = ScenarioNode::Kind;
  if (node.kind == Kind::text) return '"' + printable(node.text) + '"';
  if (node.kind == Kind::list) return "a list";
  if (node.kind == Kind::object) return "an object";
  if (!node.text.empty()) return printable(node.text);
  if (node.kind == Kind::boolean) return node.truth ? "true" : "false";
  if (node.kind == Kind::integer)
    return fmt::format("{}{}", node.negative ? "-" : "", node.magnitude);
  if (node.kind == Kind::real) return fmt::format("{}", node.real);
  return "null";
}

/// Of all `names` the one that `typed` is most likely a slip of; empty if none is near.
[[nodiscard]] inline std::string nearest_name(std::string_view typed,
                                              const std::set<std::string, std::less<>>& names) {
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

}  // namespace detail
}  // namespace mrc::bench
