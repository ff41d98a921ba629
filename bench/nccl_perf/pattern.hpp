// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_perf/collective.hpp"

/// Contents of the buffers, which follow from place, rank and round, so that a value from another
/// place, rank or time is wrong.
namespace mrc::nccl_perf {

/// Fills a rank's input.
void fill_input(Collective c, int rank, std::uint32_t round, std::byte* input, std::size_t bytes);

/// Overwrites an output, so that what a former round left there is not taken for a result.
void spoil(std::byte* output, std::size_t bytes);

/// Number of 4-byte elements of the rank's output that are wrong. `size` is the operation's.
[[nodiscard]] std::size_t wrong_elements(Collective c, const Shape& shape, int rank,
                                         std::uint32_t round, const std::byte* output,
                                         std::size_t size);

}  // namespace mrc::nccl_perf
