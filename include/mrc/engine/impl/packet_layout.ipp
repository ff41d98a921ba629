// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/packet_layout.hpp"

namespace mrc::inline v0_1::engine {

[[gnu::noinline]] MRC_DECL std::uint32_t position_of(QueuePairState& qp, Psn psn) noexcept {
  SendQueue& q = qp.tx.queue;
  const std::int32_t later = qp.tx.window.next() - psn;  // PSNs sent after it, and itself
  const auto begins_later = [&](std::uint32_t position) {
    const std::int32_t ahead = q.at(position).first - psn;
    return ahead > 0 && ahead < later;
  };
  const std::uint32_t end = q.sending() + (qp.tx.next_packet > 0);
  // Each later message takes at least one later PSN, which bounds the search.
  std::uint32_t count = std::min(end - q.done(), static_cast<std::uint32_t>(later));
  std::uint32_t first = end - count;
  while (count > 1) {  // the message is one of the `count` from `first` on
    const std::uint32_t half = count / 2;
    if (begins_later(first + half)) {
      count = half;
    } else {
      first += half;
      count -= half;
    }
  }
  return first;
}

}  // namespace mrc::inline v0_1::engine
