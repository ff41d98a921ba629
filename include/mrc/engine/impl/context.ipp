// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/context.hpp"

namespace mrc::inline v0_1::engine {

MRC_DECL void Context::rearm(QueuePairState& qp, Time now) noexcept {
  if (qp.state != QpState::rts) return timers.cancel(qp);
  if (qp.tx.window.outstanding() == 0 && qp.tx.inflight > 0) {
    // Nothing is in flight. The remainder is the rounding of rcvd_bytes to 256 B, and bytes that
    // only lost SACKs reported.
    qp.peer->congestion.on_forget(static_cast<std::uint32_t>(qp.tx.inflight));
    qp.tx.inflight = 0;
    ready.wake(*qp.peer);
  }
  timers.arm(qp, now);
}

[[gnu::always_inline]] inline void Context::release_memory(SendWqe& wqe) noexcept {
  if (wqe.inlined) return;
  const LocalSge* sges = SendQueue::sges(wqe);
  for (unsigned i = 0; i < wqe.sges; ++i)
    if (MemoryEntry* e = memory.find(sges[i].lkey)) --e->uses;
}

}  // namespace mrc::inline v0_1::engine
