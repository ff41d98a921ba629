// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "mrc/core/error.hpp"

namespace mrc::tools {

namespace detail {

inline void put(const std::string& name, const char* mode, const std::string& text) {
  std::FILE* file = std::fopen(name.c_str(), mode);
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int cause = good ? 0 : errno;
  if (file != nullptr && std::fclose(file) != 0 && good) {  // a full disk may be reported only here
    good = false;
    cause = errno;
  }
  if (!good)
    throw Error(std::error_code(cause, std::generic_category()),
                fmt::format("can't write file '{}'", name));
}

}  // namespace detail

/// Throws mrc::Error that names the file and the cause.
inline void write_file(const std::string& name, const std::string& text) {
  detail::put(name, "w", text);
}

/// Throws now if write_file() could not write the file. An empty name is ignored.
inline void check_writable(const std::string& name) {
  if (!name.empty()) detail::put(name, "a", {});
}

}  // namespace mrc::tools
