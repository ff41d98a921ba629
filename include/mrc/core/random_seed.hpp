// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>

#include <cstdint>

#include "mrc/core/siphash.hpp"
#include "mrc/core/system_error.hpp"

namespace mrc::inline v0_1::detail {

/// 64 bits from the kernel's generator. Throws mrc::Error.
[[nodiscard]] inline std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw_errno("cannot get random numbers");
  return seed;
}

/// A key for SecretRandom or siphash(), likewise.
[[nodiscard]] inline SipKey random_key() {
  return {random_seed(), random_seed()};
}

}  // namespace mrc::inline v0_1::detail
