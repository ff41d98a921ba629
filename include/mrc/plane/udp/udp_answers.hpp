// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "mrc/core/time.hpp"
#include "mrc/core/token_bucket.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/endpoint_answer.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

/// Answers requests to endpoints (mrc-1.0 §5) of hosts to which no queue pair is connected, on UDP
/// planes. Anybody can send such requests in the name of a host, so there are only so many answers
/// (EndpointAnswerLimits). One thread at a time.
class UdpAnswers {
 public:
  /// `peer`: a number of peers that the ports use for nothing else.
  UdpAnswers(PeerId peer, std::uint8_t dscp) : peer_(peer), dscp_(dscp) {}

  /// Answers a request that came by this port, to that address. False: there were too many.
  bool answer(Time now, const wire::UnconnectedProbe& request, const port::PeerAddress& to,
              port::Port& port) noexcept;

 private:
  /// A host that asks. As many as are likely to ask at a time; the others share entries with these.
  struct Guest {
    port::IpAddress address{};
    TokenBucket answers{EndpointAnswerLimits::kPerHost, EndpointAnswerLimits::kBurstPerHost};
  };

  std::array<Guest, 64> guests_{};
  TokenBucket answers_{EndpointAnswerLimits::kInAll, EndpointAnswerLimits::kBurstInAll};
  PeerId peer_;
  std::uint8_t dscp_;
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/plane/udp/impl/udp_answers.ipp"
#endif
