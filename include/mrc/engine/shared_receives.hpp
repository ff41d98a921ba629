// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/engine/receive_queue.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::engine {

/// Receive requests that several queue pairs of one engine share. Each takes the oldest one when
/// the first packet of a message that needs it, or a datagram, arrives. One thread.
struct SharedReceiveQueue {
  /// Room for `depth` requests of up to `sges` SGEs each.
  SharedReceiveQueue(SrqId number, PdId domain, std::uint32_t depth, std::uint32_t sges)
      : id(number), pd(domain), receives(depth, sges) {}

  const SrqId id;           ///< its number
  const PdId pd;            ///< protection domain of its memory
  ReceiveQueue receives;    ///< posted, and not taken by a queue pair
  std::uint32_t limit = 0;  ///< an event is raised when fewer are left; 0: none
  std::uint32_t users = 0;  ///< queue pairs
};

}  // namespace mrc::inline v0_1::engine
