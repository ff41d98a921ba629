// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/context.hpp"

namespace mrc::inline v0_1::engine {

MRC_DECL void Context::rearm(QueuePairState& qp, Time now) noexcept {
  if (qp.state != QpState::rts) return timers.cancel(qp);
  timers.arm(qp, now);
}

MRC_DECL void Context::hold_payload(QueuePairState& qp, std::uint32_t position,
                                    wire::TxBurst& burst) noexcept {
  wire::TxPacket& packet = burst.newest();
  for (const wire::TxSge& sge : burst.sges(packet)) {
    if (sge.region == 0) continue;
    memory.hold(sge.region);
    if (packet.copy == wire::CopyId::none)
      packet.copy = copies.add(CopyTable::Request{qp.qpn, position}, sge.region);
    else
      copies.add_region(packet.copy, sge.region);
  }
  if (packet.copy != wire::CopyId::none) ++qp.tx.queue.at(position).copies;
}

MRC_DECL QueuePairState* Context::release_payload(wire::CopyId copy) noexcept {
  const auto request = copies.remove(copy, [this](std::uint32_t key) { memory.release(key); });
  QueuePairState* qp = request ? objects.qp(request->qpn) : nullptr;
  if (qp != nullptr) --qp->tx.queue.at(request->position).copies;
  return qp;
}

MRC_DECL void Context::retire(QueuePairState& qp) noexcept {
  SendQueue& q = qp.tx.queue;
  const bool failed = qp.state == QpState::err;
  const std::uint32_t end = failed ? q.posted() : q.done();
  while (q.retired() != end) {
    const std::uint32_t position = q.retired();
    SendWqe& w = q.at(position);
    if (w.copies > 0) return;
    release_memory(w);
    Completion c;
    c.wr_id = w.wr_id;
    c.qpn = qp.qpn;
    c.opcode = w.with_immediate ? WcOpcode::write_imm : WcOpcode::write;
    const bool done = position != q.done();  // else q.done() is not behind it yet
    if (!done) {
      c.status = qp.tx.failed == position ? qp.tx.failed_status : WcStatus::wr_flush_err;
      q.finish();
    }
    const bool report = !done || w.signaled;
    qp.stats.writes_completed += done;
    q.retire();
    if (report) completions.complete(qp.init.send_cq, c);
  }
}

[[gnu::always_inline]] inline void Context::release_memory(SendWqe& wqe) noexcept {
  if (wqe.inlined) return;
  const LocalSge* sges = SendQueue::sges(wqe);
  for (unsigned i = 0; i < wqe.sges; ++i)
    if (MemoryEntry* e = memory.find(sges[i].lkey)) --e->uses;
}

}  // namespace mrc::inline v0_1::engine
