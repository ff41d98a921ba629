// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

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

}  // namespace mrc::test
