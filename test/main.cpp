// SPDX-License-Identifier: Apache-2.0
// The main() of every unit test executable. The precompiled header has brought in doctest's
// declarations already, which leaves the implementation; both macros are needed for that.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
