// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "mrc/fabric/json.hpp"
#include "support/errors.hpp"

/// A file with a value of each kind, and what goes wrong with others.
namespace mrc::test {

inline json_file::Object root_of(std::string_view text) {
  return json_file::File::parse("s.json", text).root();
}

template <class F>
std::string file_error(F f) {
  return error_of<json_file::FileError>(f);
}

inline std::string parse_error(std::string_view text) {
  return file_error([&] { (void)root_of(text); });
}

inline constexpr const char* kText = R"(// Two planes.
{
  "name": "two planes", /* a comment
     over two lines */
  "topology": {
    "planes": 2,
    "gbps": 100.5,
    "host_delay": "1.5us",
    "queue": "64KiB",
    "mode": "srv6"
  },
  "pfc": true,
  "faults": [
    { "at": "2ms", "kind": "down" },
    { "at": 0,
      "kind": "up" }
  ],
  "loss": [0, 0.001, 1e-2],
  "sizes": ["4KiB", 1000]
}
)";

}  // namespace mrc::test
