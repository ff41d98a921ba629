// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/net/socket.hpp"

namespace mrc::inline v0_1::port {

/// Attaches a filter to a packet socket, by which the kernel selects the MRC packets of one
/// process. It passes frames that carry MRC (mrc-1.0 §1.1): IPv6, optionally within IPv6 with or
/// without an SRH; UDP to `udp_port`, or to the alternative port if that is the usual one [C-1]; to
/// a QPN whose top 8 bits are `slot`. Endpoint operations go to QPN 2 of the host and so to all
/// processes on it; each recognises its own by sender and operation number. Throws Error if the
/// kernel refuses the filter.
void attach_slot_filter(const Socket& socket, std::uint8_t slot, std::uint16_t udp_port);

}  // namespace mrc::inline v0_1::port
