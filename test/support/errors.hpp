// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "mrc/core/error.hpp"

namespace mrc::test {

/// The message of the error that `f` throws; "no error" if it throws none.
template <class Thrown = Error, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "no error";
}

/// The mrc::Error that `f` throws; fails the test when there is none.
template <class F>
Error thrown_by(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return {Errc::ok, ""};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace mrc::test
