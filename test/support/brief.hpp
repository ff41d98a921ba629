// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mrc::test {

/// A sanitizer runs along. In the child of a fork() of a process with threads the one for addresses
/// does not work, and the one for threads allows no thread.
#if defined(MRC_TEST_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// True in sanitized builds (but with MRC_TEST_SCOPE=long). They look at what code does, not at how
/// well or how often: a test that repeats itself for a rate, a mean or a wrap does less of it.
#if defined(MRC_TEST_BRIEF)
inline constexpr bool kBrief = true;
#else
inline constexpr bool kBrief = false;
#endif

}  // namespace mrc::test
