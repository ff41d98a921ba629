// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/json/json.hpp"
#include "mrc/json/json_error.hpp"
#include "mrc/json/tree.hpp"

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
