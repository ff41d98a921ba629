// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/message_layout.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// The last message of `q` that begins no later than `psn`, from the oldest unacknowledged one to
/// the one before `end`; the oldest if there is none. `later`: PSNs sent after psn, and itself.
[[nodiscard]] inline std::uint32_t last_begun(const SendQueue& q, std::uint32_t end, Psn psn,
                                              std::int32_t later) noexcept {
  const auto begins_later = [&](std::uint32_t position) {
    const std::int32_t ahead = q.at(position).first - psn;
    return ahead > 0 && ahead < later;
  };
  // Each later message takes at least one later PSN, which bounds the search.
  std::uint32_t count = std::min(end - q.acknowledged(), static_cast<std::uint32_t>(later));
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

}  // namespace detail

[[gnu::noinline]] SentMessage message_of(QueuePairState& qp, Psn psn) noexcept {
  const std::int32_t later = qp.tx.window.next() - psn;
  SendQueue& q = qp.tx.queue;
  if (!qp.rc) {
    const std::uint32_t end = q.sending() + (qp.tx.next_packet > 0);
    return {&q, detail::last_begun(q, end, psn, later)};
  }
  RcState& rc = *qp.rc_state;
  const bool part = qp.tx.next_packet > 0;
  const std::uint32_t end = q.sending() + (part && !rc.answering);
  if (end != q.acknowledged()) {
    const SentMessage found{&q, detail::last_begun(q, end, psn, later)};
    const std::int32_t offset = psn - found.wqe().first;
    if (offset >= 0 && static_cast<std::uint32_t>(offset) < found.wqe().packets) return found;
  }
  SendQueue& r = rc.responses;
  return {&r, detail::last_begun(r, r.sending() + (part && rc.answering), psn, later)};
}

}  // namespace mrc::inline v0_1::engine
