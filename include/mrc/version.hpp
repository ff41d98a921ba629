// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/core/linkage.hpp"

/// Version of these headers. Before 1.0 a minor version may change the API. CMake and `--version`
/// of the programs read it from here.
#define MRC_VERSION_MAJOR 0
/// See MRC_VERSION_MAJOR.
#define MRC_VERSION_MINOR 1
/// See MRC_VERSION_MAJOR.
#define MRC_VERSION_PATCH 0

/// As one number that grows with every version: 1.2.3 is 10203.
#define MRC_VERSION (MRC_VERSION_MAJOR * 10000 + MRC_VERSION_MINOR * 100 + MRC_VERSION_PATCH)

/// A macro's value as text.
#define MRC_VERSION_TEXT(number) MRC_VERSION_TEXT_OF(number)
/// Text of what is between the parentheses.
#define MRC_VERSION_TEXT_OF(number) #number
/// As text, "0.1.0".
#define MRC_VERSION_STRING            \
  MRC_VERSION_TEXT(MRC_VERSION_MAJOR) \
  "." MRC_VERSION_TEXT(MRC_VERSION_MINOR) "." MRC_VERSION_TEXT(MRC_VERSION_PATCH)

namespace mrc::inline v0_1 {

/// MRC_VERSION of the library that runs: of libopenmrc.so when the program is linked to it, which
/// may be newer than the headers that the program was compiled with. Any thread.
[[nodiscard]] MRC_API int version() noexcept;
/// The same as text, "0.1.0", for logs. Valid for the life of the process. Any thread.
[[nodiscard]] MRC_API const char* version_string() noexcept;

}  // namespace mrc::inline v0_1
