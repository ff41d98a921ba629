// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1 {

/// The ConnectionInfo of another implementation of MRC: what its queue pair is, which PSN it sends
/// first, and where it receives in each plane, with the UDP port (4791, 4971 or any other). The
/// rest is what MRC says of a peer that has told nothing: 32 x 128 PSNs and 128 WriteImm in flight
/// (mrc-1.0 §7.3), an MTU as this side's, or the power of two below it, and none of OpenMRC's
/// extensions: no tags, SENDs, READs or atomics, no solicited events. What is known better can be
/// changed in the result. Over IPv4 sockets its packets are sent one by one, with an iCRC that is
/// right for a NIC.
[[nodiscard]] inline ConnectionInfo foreign_peer(Qpn qpn, Psn start_psn,
                                                 std::vector<port::PeerAddress> planes) {
  ConnectionInfo info;
  if (!planes.empty()) info.device_guid = port::source_tag(planes.front().ip);
  info.qpn = qpn;
  info.start_psn = start_psn;
  info.mtu = 0;
  info.planes = std::move(planes);
  return info;
}

}  // namespace mrc::inline v0_1
