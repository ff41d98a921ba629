// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "arguments.hpp"

namespace mrc::forge {

/// Listens at interface dev=NAME for seconds=N and prints a line for each kind of packet seen:
///
///     SOURCE SOURCE_PORT DESTINATION PORT OPCODE QPN PSN PACKETS ANSWERS
///
/// QPN is the destination's in BTH, PSN and SOURCE_PORT those of the newest packet. PACKETS counts
/// what the interface sees: a burst that the kernel has not cut yet is one. ANSWERS of these are
/// SACKs for the reliability probe id=N, endpoint responses to request id=N, or NACKs for trimmed
/// packets.
void watch(const Arguments& arguments);

}  // namespace mrc::forge
