// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "mrc/fabric/description.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "support/errors.hpp"

/// Shared by the tests of fabric descriptions.
namespace mrc::fabric::testing {

/// Two hosts, four planes, two T0s and T1s; `more` fields in front.
inline std::string small(const std::string& more = "") {
  return "{ " + more + R"( "planes": 4, "t0": 2, "t1": 2, "hosts": 2 })";
}
inline Description small_fabric(const std::string& more = "") {
  return parse("f.json", small(more));
}

/// The message about a description, or "no error".
inline std::string parse_error(std::string_view text) {
  return test::error_of<json_file::FileError>([&] { (void)parse("f.json", text); });
}

inline wire::IpAddress address(const std::string& text) {
  return parse_ipv6(text).value();
}

/// A file of this repository.
inline std::filesystem::path source_file(const std::string& name) {
  return std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path() / name;
}

}  // namespace mrc::fabric::testing
