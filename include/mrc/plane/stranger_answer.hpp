// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "mrc/core/types.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::detail {

/// How many requests of strangers a device answers. Anybody can send them in the name of a host,
/// and an answer is 20 bytes longer than its request, by their formats (mrc-1.0 §1.10).
struct StrangerLimits {
  /// Answers per second to one host, as fast as mrc_probe and Device::request_endpoints() ask
  /// unless they are told otherwise; and how many at once.
  static constexpr std::uint32_t kAnswersPerHost = 10'000, kBurstPerHost = 512;
  /// The same to all hosts together.
  static constexpr std::uint32_t kAnswers = 12'000, kBurst = 1024;
};

/// Appends the response to a stranger's request to a burst, which must have room. It goes to a peer
/// of the port of that plane, by a path of it, with the DSCP of control packets.
inline void append_answer(wire::TxBurst& burst, const wire::UnconnectedRequest& request,
                          PeerId peer, const path::PathSpec& path, std::uint8_t dscp) noexcept {
  wire::EndpointResponsePacket answer{
      wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, Psn{request.id}), {}};
  answer.eeth.set_op(request.op);
  answer.eeth.set_tx_timestamp(request.timestamp);
  wire::TxPacket& packet = burst.append();
  std::memcpy(packet.header.data(), &answer, sizeof answer);
  packet.header_length = sizeof answer;
  packet.dscp = dscp;
  packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
  packet.peer = peer;
  packet.plane = request.plane;
  packet.entropy = path.ev;
  packet.port_path = path.port_path;
  burst.commit();
}

}  // namespace mrc::inline v0_1::detail
