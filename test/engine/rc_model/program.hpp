// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/rc_model/model.hpp"
#include "mrc/core/random.hpp"

namespace mrc::test::rc {

/// What random programs are made of.
struct ProgramOptions {
  unsigned connections = 2;         ///< at most
  unsigned ops = 30;                ///< per flow, at most
  std::uint32_t max_size = 65'536;  ///< bytes
  double wrong = 0.3;               ///< share of connections with a wrong request
  /// Then with one in each direction. Each side waits for answers that may be behind the request
  /// that the other one refuses, so both may only end when their retries do.
  bool both = false;
};

/// A random program; everything follows from `random`.
[[nodiscard]] Program make_program(const ProgramOptions& options, Random& random);

}  // namespace mrc::test::rc
