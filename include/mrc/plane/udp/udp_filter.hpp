// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/net/socket.hpp"

namespace mrc::inline v0_1::port {

/// Attaches a filter to a UDP socket, by which the kernel drops what can't be MRC before it is
/// queued and before any thread is woken: too short for a BTH, another opcode, another transport
/// version. QPN and key are left to the engine, which counts what is wrong with them.
///
/// Of datagrams that the kernel has joined (GRO) a filter sees only the first: those longer than
/// `largest`, which no packet is, pass, or one forged datagram would take the genuine ones behind
/// it along. The kernel counts what it drops together with what finds no room in the buffer. Throws
/// Error if it refuses the filter.
void attach_udp_filter(const Socket& socket, std::uint32_t largest);

}  // namespace mrc::inline v0_1::port
