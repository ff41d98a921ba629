// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mrc::inline v0_1::cc {

/// The congestion control algorithms to choose from (cc/controller.hpp).
enum class Algorithm : std::uint8_t {
  nscc,   ///< Nscc
  fixed,  ///< FixedWindow
  none,   ///< Unlimited
};

/// The name that the MRC API and the configuration use.
[[nodiscard]] constexpr const char* to_string(Algorithm a) noexcept {
  switch (a) {
    case Algorithm::nscc:
      return "uet-1.0-nscc";
    case Algorithm::fixed:
      return "fixed";
    case Algorithm::none:
      return "none";
  }
  return "unknown";
}

/// The algorithm of that name ("nscc" is short for "uet-1.0-nscc"); nothing if there is none.
[[nodiscard]] constexpr std::optional<Algorithm> parse_algorithm(std::string_view name) noexcept {
  if (name == "nscc") return Algorithm::nscc;
  for (const Algorithm a : {Algorithm::nscc, Algorithm::fixed, Algorithm::none}) {
    if (name == to_string(a)) return a;
  }
  return std::nullopt;
}

}  // namespace mrc::inline v0_1::cc
