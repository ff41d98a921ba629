// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace mrc::inline v0_1::json_file {

/// What is wrong with a file: what() is "file.json:12: topology.planes: is 99, must be 1 to 32".
/// Values given on the command line have "--set" in place of file and line; errors of JSON itself
/// have "file.json:12:5" and no field.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace mrc::inline v0_1::json_file
