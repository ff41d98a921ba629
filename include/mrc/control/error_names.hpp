// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::control {

/// How an error is called in answers of control sockets (docs/control.md): programs may compare it.
[[nodiscard]] constexpr const char* wire_name(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::not_found:
      return "not_found";
    case Errc::unsupported:
      return "unsupported";
    case Errc::access_denied:
      return "access_denied";
    case Errc::in_use:
      return "in_use";
    case Errc::no_resources:
      return "no_resources";
    default:
      return "failed";
  }
}

}  // namespace mrc::inline v0_1::control
