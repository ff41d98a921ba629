// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/fabric/json.hpp"

namespace mrc::tools {

/// Exit status after invalid options or input.
inline constexpr int kBadOptionStatus = 2;

/// Thrown to end the program at once with this status; messages have been printed.
struct Exit {
  int code;
};

/// The body of main(): returns what `run()` returns; if it throws, prints the error with the
/// program's name and returns kBadOptionStatus for invalid options or input files, else `failed`.
template <class Run>
[[nodiscard]] int run_main(const char* program, Run run, int failed = 1) {
  const auto fail = [&](const std::string& words, int status) {
    fmt::print(stderr, "{}: {}\n", program, words);
    return status;
  };
  try {
    return run();
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const json_file::FileError& error) {
    return fail(error.what(), kBadOptionStatus);
  } catch (const Error& error) {
    return fail(mrc::detail::words_of(error),
                error.code() == Errc::invalid_argument ? kBadOptionStatus : failed);
  } catch (const std::exception& error) {
    return fail(error.what(), failed);
  }
}

}  // namespace mrc::tools
