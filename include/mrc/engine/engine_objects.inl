// SPDX-License-Identifier: Apache-2.0
// Engine: creating and destroying objects.
#pragma once

#include <algorithm>
#include <bit>

#include "mrc/core/types.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/engine/ranges.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

inline constexpr std::uint32_t kMaxQps = 65'533;  // 16-bit index less the reserved QPNs

inline void require(bool ok, const char* what) {
  if (!ok) throw Error(Errc::invalid_argument, what);  // set-up
}

/// Position of the oldest request of a queue that uses a memory region.
[[nodiscard]] inline std::optional<std::uint32_t> user_of(SendQueue& q,
                                                          std::uint32_t key) noexcept {
  for (std::uint32_t p = q.retired(); p != q.posted(); ++p) {
    SendWqe& w = q.at(p);
    if (w.flags.inline_data) continue;
    const LocalSge* sges = SendQueue::sges(w);
    const auto uses_it = [key](const LocalSge& sge) { return sge.lkey == key; };
    if (std::any_of(sges, sges + w.sges, uses_it)) return p;
  }
  return std::nullopt;
}

}  // namespace detail

Engine::Engine(const EngineOptions& options) : ctx_(options) {
  detail::require(options.max_qps >= 1 && options.max_qps <= detail::kMaxQps,
                  "max_qps must be 1 .. 65533");
  detail::require(options.max_mrs >= 1 && options.max_mrs <= MemoryTable::kMaxRegions,
                  "max_mrs must be 1 .. 65536");
  detail::require(options.max_outstanding >= reliability::kRecordsPerChunk,
                  "max_outstanding must be at least 64");
  detail::require(options.held_copies <= CopyTable::kMaxCopies &&
                      (options.holding_planes == 0 || options.held_copies >= 1),
                  "held_copies must be 1 .. 65535 if there are holding_planes");
  detail::require(options.burst >= 1, "burst must be at least 1");
  detail::require(options.timestamps || options.cc.algorithm != cc::Algorithm::nscc,
                  "cc=nscc needs timestamps: it is steered by delays, and without time stamps "
                  "there are none. Set timestamps, or cc to fixed or none");
  early_.reserve(options.early_packets);
}

Engine::~Engine() {
  ctx_.objects.for_each_qp([this](QueuePairState& qp) { teardown_.detach(qp); });
  ctx_.datagrams.for_each_qp([this](DatagramState& qp) { teardown_.clear(qp); });
  ctx_.objects.for_each_peer([this](Peer& peer) { ctx_.timers.cancel(peer); });
}

// ------------------------------------------------------- protection domains and memory regions

Result<PdId> Engine::alloc_pd() {
  return ctx_.objects.add_pd();
}

Errc Engine::dealloc_pd(PdId pd) noexcept {
  if (!ctx_.objects.has_pd(pd)) return Errc::not_found;
  if (pd_in_use(pd)) return Errc::in_use;
  ctx_.objects.remove_pd(pd);
  return Errc::ok;
}

bool Engine::pd_in_use(PdId pd) noexcept {
  bool used = ctx_.memory.uses_pd(pd);
  ctx_.objects.for_each_qp([&](const QueuePairState& qp) { used = used || qp.init.pd == pd; });
  ctx_.objects.for_each_srq([&](const SharedReceiveQueue& srq) { used = used || srq.pd == pd; });
  ctx_.datagrams.for_each_qp([&](const DatagramState& qp) { used = used || qp.init.pd == pd; });
  return used;
}

Result<std::uint32_t> Engine::register_memory(void* address, std::uint64_t length, Access access,
                                              PdId pd, std::optional<std::uint32_t> key) {
  if (!ctx_.objects.has_pd(pd)) return Errc::not_found;
  const auto base = reinterpret_cast<std::uint64_t>(address);
  if (address == nullptr || length == 0 || base + length < base) return Errc::invalid_argument;
  access = in_force(access);
  return key ? ctx_.memory.add_as(*key, address, length, access, pd)
             : ctx_.memory.add(address, length, access, pd, ctx_.secrets);
}

bool Engine::memory_in_use(std::uint32_t key) noexcept {
  const MemoryEntry* e = ctx_.memory.find(key);
  return e != nullptr && e->uses > 0;
}

Errc Engine::deregister_memory(std::uint32_t key, bool force) noexcept {
  const MemoryEntry* e = ctx_.memory.find(key);
  if (e == nullptr) return Errc::not_found;
  if (e->uses > 0 && !force) return Errc::in_use;
  ctx_.objects.for_each_qp([&](QueuePairState& qp) {
    if (e->uses == 0) return;
    if (const auto p = detail::user_of(qp.tx.queue, key))
      return teardown_.fail(qp, QpErrorCause::memory_withdrawn, WcStatus::loc_prot_err, p);
    bool used = qp.rc_state && detail::user_of(qp.rc_state->responses, key);
    qp.rx.receives.for_each_sge([&](const ReceiveSge& sge) { used = used || sge.lkey == key; });
    if (used) teardown_.fail(qp, QpErrorCause::memory_withdrawn, WcStatus::wr_flush_err);
  });
  withdraw_from_datagrams(key);
  ctx_.memory.remove(key);
  teardown_.fail_overrun_queues();
  return Errc::ok;
}

// -------------------------------------------------------------------------- completion queues

Result<CqId> Engine::create_cq(std::uint32_t depth) {
  return ctx_.completions.create(depth);
}
Errc Engine::destroy_cq(CqId cq) noexcept {
  return ctx_.completions.destroy(cq);
}
std::size_t Engine::poll_cq(CqId cq, std::span<Completion> out) noexcept {
  const std::size_t n = ctx_.completions.poll(cq, out);
  if (n == 0 || !ctx_.completions.find(cq)->keeps) return n;
  for (const Completion& c : out.first(n)) ctx_.on_polled(c);
  return n;
}
Errc Engine::arm_cq(CqId cq, Arm what) noexcept {
  return ctx_.completions.arm(cq, what);
}
const CompletionRing* Engine::find_cq(CqId cq) const noexcept {
  return ctx_.completions.find(cq);
}

// ---------------------------------------------------------------------- shared receive queues

Result<SrqId> Engine::create_srq(PdId pd, std::uint32_t depth, std::uint32_t sges) {
  if (!ctx_.objects.has_pd(pd)) return Errc::not_found;
  if (depth == 0 || depth > kMaxQueue || sges == 0 || sges > kMaxReceiveSges)
    return Errc::invalid_argument;
  return ctx_.objects.add_srq(pd, depth, sges);
}

Errc Engine::destroy_srq(SrqId id) noexcept {
  SharedReceiveQueue* srq = ctx_.objects.srq(id);
  if (srq == nullptr) return Errc::not_found;
  if (srq->users > 0) return Errc::in_use;
  while (!srq->receives.empty()) ctx_.release_receive(srq->receives);
  ctx_.completions.forget(id);
  ctx_.objects.remove_srq(id);
  return Errc::ok;
}

Errc Engine::post_receive(SrqId id, const ReceiveRequest& request) noexcept {
  SharedReceiveQueue* srq = ctx_.objects.srq(id);
  return srq == nullptr ? Errc::not_found : ctx_.post_receive(srq->receives, srq->pd, request);
}

Errc Engine::set_srq_limit(SrqId id, std::uint32_t limit) noexcept {
  SharedReceiveQueue* srq = ctx_.objects.srq(id);
  if (srq == nullptr) return Errc::not_found;
  if (limit > srq->receives.capacity()) return Errc::invalid_argument;
  srq->limit = limit;
  ctx_.note_taken(*srq);
  return Errc::ok;
}

const SharedReceiveQueue* Engine::find_srq(SrqId id) const noexcept {
  return const_cast<ObjectTables&>(ctx_.objects).srq(id);
}

// -------------------------------------------------------------------------------- queue pairs

Result<Qpn> Engine::create_qp(const QpInit& asked) {
  if (out_of_range(asked.capacity) || out_of_range(asked.attributes)) return Errc::invalid_argument;
  QpInit init = asked;
  SharedReceiveQueue* srq = init.srq ? ctx_.objects.srq(*init.srq) : nullptr;
  if (init.srq) {
    if (srq == nullptr) return Errc::not_found;
    if (!init.attributes.rc) return Errc::unsupported;
    // What it has taken from the shared queue: one receive for each number that is tracked.
    init.capacity.receive = init.attributes.max_wimm_dest;
    init.capacity.receive_sges = srq->receives.sge_limit();
  }
  const EngineOptions& o = ctx_.options;
  if (o.holding_planes != 0 && std::max(init.capacity.send_sges, 1u) > o.held_copies)
    return Errc::invalid_argument;  // one packet could not be held
  CompletionRing* send_cq = ctx_.completions.find(init.send_cq);
  CompletionRing* receive_cq = ctx_.completions.find(init.receive_cq);
  if (!ctx_.objects.has_pd(init.pd) || send_cq == nullptr || receive_cq == nullptr)
    return Errc::not_found;
  Result<Qpn> qpn = ctx_.objects.add_qp(init, ctx_.writes, ctx_.records);
  if (!qpn) return qpn;
  renew(*ctx_.objects.qp(*qpn));
  if (srq != nullptr) ++srq->users;
  ++send_cq->users;
  ++receive_cq->users;
  if (init.as_verbs) send_cq->keeps = receive_cq->keeps = true;
  return qpn;
}

Errc Engine::destroy_qp(Qpn qpn) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    teardown_.detach(qp);
    forget_completions(qp);
    ctx_.completions.forget(qpn);
    --ctx_.completions.find(qp.init.send_cq)->users;
    --ctx_.completions.find(qp.init.receive_cq)->users;
    if (qp.init.srq) --ctx_.objects.srq(*qp.init.srq)->users;
    ctx_.objects.remove_qp(qpn);
    return Errc::ok;
  });
}

const QueuePairState* Engine::find_qp(Qpn qpn) const noexcept {
  return ctx_.objects.qp(qpn);
}

QpStats Engine::qp_stats(const QueuePairState& qp) const noexcept {
  QpStats s = qp.stats;
  s.tx_packets = qp.tx.tx_packets;
  s.tx_bytes = qp.tx.tx_bytes;
  s.rx_packets = qp.rx.rx_packets;
  s.rx_bytes = qp.rx.rx_bytes;
  s.acknowledged = qp.tx.acknowledged;
  s.smoothed_rtt_ns = static_cast<std::uint32_t>(
      std::clamp<Duration::rep>(qp.tx.rtt.smoothed().count(), 0, 0xFFFFFFFF));
  s.outstanding = qp.tx.window.outstanding();
  if (qp.peer != nullptr) {
    s.cwnd = qp.peer->congestion.window();
    s.inflight = qp.peer->congestion.inflight();
  }
  return s;
}

// -------------------------------------------------------------------------------------- peers

Result<PeerId> Engine::add_peer(const PeerSpec& spec) {
  detail::require(!spec.paths.empty(), "a peer needs at least one path");
  Result<PeerId> id = ctx_.objects.add_peer(spec, ctx_.random);
  if (!id) return id;
  Peer& peer = *ctx_.objects.peer(*id);
  if (const Peer* sibling = spec.sibling ? ctx_.objects.peer(*spec.sibling) : nullptr) {
    peer.remote_up = sibling->remote_up;
    peer.remote_status_id = sibling->remote_status_id;
    peer.remote_status_at = sibling->remote_status_at;
    for (PlaneMask m = sibling->trials.withheld() & spec.planes; m != 0; m &= m - 1)
      peer.trials.withhold(static_cast<Plane>(std::countr_zero(m)), ctx_.latest);
  }
  peer.paths.count_events(ctx_.path_events);
  peer.congestion.share(ctx_.link);
  peer.paths.set_probe_spacing(peer.congestion.base_rtt());
  endpoint_.update_planes(peer);
  return id;
}

Errc Engine::remove_peer(PeerId id) noexcept {
  Peer* peer = ctx_.objects.peer(id);
  if (peer == nullptr) return Errc::not_found;
  if (peer->queue_pairs > 0) return Errc::in_use;
  ctx_.timers.cancel(*peer);
  // Its number will be used again, by a peer with other paths.
  ctx_.control.invalidate(
      [id](const ControlItem& item) { return item.qpn == Qpn{} && item.peer == id; });
  endpoint_.forget(id);
  if (peer->pieces.singly() != 0) ++ctx_.path_events;
  ctx_.objects.remove_peer(*peer);
  return Errc::ok;
}

Peer* Engine::find_peer(PeerId peer) noexcept {
  return ctx_.objects.peer(peer);
}
const Peer* Engine::find_peer(PeerId peer) const noexcept {
  return ctx_.objects.peer(peer);
}

}  // namespace mrc::inline v0_1::engine
