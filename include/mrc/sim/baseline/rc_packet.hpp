// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"

/// What the two ends of a simulated RC queue pair exchange, apart from its form on the wire.
namespace mrc::inline v0_1::sim::baseline {

/// A data packet.
struct RcPacket {
  Psn psn;
  std::uint32_t payload = 0;    ///< bytes
  bool first = false;           ///< starts a message
  bool last = false;            ///< ends it
  bool notify = false;          ///< carries an immediate; on the last packet of such a message only
  bool ack_request = false;     ///< BTH.AckReq: wants an answer at once
  bool retransmission = false;  ///< has been sent before; not on the wire
  std::uint64_t message = 0;    ///< its id; a receiver looks at it in a message's first packet only
  std::uint32_t message_bytes = 0;  ///< likewise
};

/// A message that has arrived complete.
struct RcDelivery {
  std::uint64_t message = 0;
  std::uint32_t bytes = 0;
  bool notify = false;
};

/// What a receiver sends back for one packet, and what it has delivered by it.
struct RcReply {
  enum class Kind : std::uint8_t {
    none,
    ack,  ///< everything up to and with psn has arrived
    nak,  ///< PSN sequence error: psn is missing, everything before it has arrived
  };
  Kind kind = Kind::none;
  Psn psn;
  std::uint32_t msn = 0;   ///< AETH.MSN: messages completed, 24 bit
  bool cnp = false;        ///< send a CNP as well
  bool delivered = false;  ///< `delivery` holds a message
  RcDelivery delivery;
};

/// A posted message that is done.
struct RcCompletion {
  std::uint64_t message = 0;
  std::uint32_t bytes = 0;
  bool notify = false;  ///< it was posted so
  bool ok = false;      ///< false: the queue pair has failed
  Time at{};            ///< when it was acknowledged, or when the queue pair failed
};

}  // namespace mrc::inline v0_1::sim::baseline
