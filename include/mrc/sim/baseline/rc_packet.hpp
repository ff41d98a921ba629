// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/types.hpp"

/// Packets and events exchanged by the two ends of a simulated RC queue pair, independent of the
/// wire format.
namespace mrc::inline v0_1::sim::baseline {

/// A data packet.
struct RcPacket {
  Psn psn;                      ///< packet sequence number
  std::uint32_t payload = 0;    ///< bytes
  bool first = false;           ///< starts a message
  bool last = false;            ///< ends it
  bool notify = false;          ///< carries an immediate; only on the last packet of a message
  bool ack_request = false;     ///< BTH.AckReq: requests an ACK
  bool retransmission = false;  ///< has been sent before; not on the wire
  std::uint64_t message = 0;    ///< its id; used by the receiver in a message's first packet only
  std::uint32_t message_bytes = 0;  ///< likewise
};

/// A message that has arrived complete.
struct RcDelivery {
  std::uint64_t message = 0;  ///< its id
  std::uint32_t bytes = 0;    ///< payload
  bool notify = false;        ///< carried an immediate
};

/// What a receiver sends in response to one packet, and what the packet completed.
struct RcReply {
  /// Kind of the response.
  enum class Kind : std::uint8_t {
    none,
    ack,  ///< everything up to and including psn has arrived
    nak,  ///< PSN sequence error: psn is missing, everything before it has arrived
  };
  Kind kind = Kind::none;  ///< kind of the response
  Psn psn;                 ///< see Kind
  std::uint32_t msn = 0;   ///< AETH.MSN: messages completed, 24 bit
  bool cnp = false;        ///< send a CNP as well
  bool delivered = false;  ///< `delivery` is valid
  RcDelivery delivery;     ///< the message completed by the packet
};

/// A posted message that has completed.
struct RcCompletion {
  std::uint64_t message = 0;  ///< its id
  std::uint32_t bytes = 0;    ///< payload
  bool notify = false;        ///< posted with an immediate
  bool ok = false;            ///< false: the queue pair has failed
  Time at{};                  ///< when it was acknowledged, or when the queue pair failed
};

}  // namespace mrc::inline v0_1::sim::baseline
