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

#include "mrc/json/json_error.hpp"
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

}  // namespace mrc::inline v0_1::json_file::detail
