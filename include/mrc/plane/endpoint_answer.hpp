// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "mrc/core/types.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::detail {

/// Answers per second to requests of unconnected hosts (mrc-1.0 §5), to one host and to all
/// together, and how many at once. An answer is 20 bytes longer than its request, by their formats.
struct EndpointAnswerLimits {
  static constexpr std::uint32_t kPerHost = 10'000, kBurstPerHost = 512;
  static constexpr std::uint32_t kInAll = 12'000, kBurstInAll = 1024;
};

/// Writes the answer to a request, but for the peer and the path that it goes by.
inline void write_endpoint_answer(const wire::UnconnectedProbe& request, std::uint8_t dscp,
                                  wire::TxPacket& packet) noexcept {
  wire::EndpointResponsePacket answer{
      wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, Psn{request.id}), {}};
  answer.eeth.set_op(request.op);
  answer.eeth.set_tx_timestamp(request.timestamp);
  std::memcpy(packet.header.data(), &answer, sizeof answer);
  packet.header_length = sizeof answer;
  packet.dscp = dscp;
  packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
  packet.plane = request.plane;
}

}  // namespace mrc::inline v0_1::detail
