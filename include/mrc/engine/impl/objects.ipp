// SPDX-License-Identifier: Apache-2.0
// Engine: making and destroying objects.
#pragma once

#include <algorithm>
#include <bit>

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

inline constexpr std::uint32_t kMaxQps = 65'533;  // 16-bit index less the reserved QPNs
inline constexpr std::uint32_t kMaxCqDepth = 1u << 22;
inline constexpr std::uint32_t kMaxQueue = 1u << 15;

inline void require(bool ok, const char* what) {
  if (!ok) throw Error(Errc::invalid_argument, what);  // set-up
}

/// Takes every entry equal to `value` out of a ring.
template <class T>
void drop(Ring<T>& ring, const T& value) noexcept {
  for (std::size_t n = ring.size(); n > 0; --n) {
    const T entry = ring.front();
    ring.pop_front();
    if (entry != value) ring.push_back(entry);
  }
}

[[nodiscard]] inline std::uint64_t source_key(std::uint64_t tag, std::uint8_t slot) noexcept {
  return tag ^ (std::uint64_t{slot} * 0x9E3779B97F4A7C15u);
}

}  // namespace detail

MRC_DECL Engine::Engine(const EngineOptions& options)
    : options_(options),
      latest_(options.start),
      random_(options.seed),
      timers_(options.start),
      pool_(options.max_outstanding),
      memory_(options.max_mrs),
      held_tails_(options.held_tails),
      control_(options.control_queue),
      free_qps_(options.max_qps),
      requests_(kOpenRequests),
      // Where processes share a host, its answers reach all of them: each has numbers of its own.
      next_request_(static_cast<std::uint16_t>((options.seed * 0x9E3779B97F4A7C15u >> 48) +
                                               options.slot * 257u)),
      signalled_(options.max_cqs),
      overrun_(options.max_cqs),
      failed_(options.max_qps),
      guest_probes_(options.guest_probes) {
  detail::require(options.max_qps >= 1 && options.max_qps <= detail::kMaxQps,
                  "max_qps must be 1 .. 65533");
  detail::require(options.max_mrs >= 1 && options.max_mrs <= MemoryTable::kMaxRegions,
                  "max_mrs must be 1 .. 65536");
  detail::require(options.max_outstanding >= reliability::kRecordsPerChunk,
                  "max_outstanding must be at least 64");
  detail::require(options.burst >= 1, "burst must be at least 1");
  qps_.resize(options.max_qps);
  for (std::uint32_t i = 0; i < options.max_qps; ++i) free_qps_.push_back(i);
  cqs_.reserve(options.max_cqs);
  pds_.reserve(options.max_pds);
  peers_.reserve(options.max_peers);
}

MRC_DECL Engine::~Engine() {
  for (auto& qp : qps_)
    if (qp) detach(*qp);
  for (auto& peer : peers_)
    if (peer) timers_.cancel(*peer);
}

MRC_DECL Result<PdId> Engine::alloc_pd() {
  for (std::uint32_t i = 0; i < options_.max_pds; ++i) {
    if (i == pds_.size()) pds_.push_back(0);
    if (pds_[i] == 0) {
      pds_[i] = 1;
      return PdId{i};
    }
  }
  return Errc::no_resources;
}

MRC_DECL Errc Engine::dealloc_pd(PdId pd) noexcept {
  const auto i = static_cast<std::uint32_t>(pd);
  if (i >= pds_.size() || pds_[i] == 0) return Errc::not_found;
  if (memory_.uses_pd(pd)) return Errc::in_use;
  for (const auto& qp : qps_)
    if (qp && qp->init.pd == pd) return Errc::in_use;
  pds_[i] = 0;
  return Errc::ok;
}

MRC_DECL Result<std::uint32_t> Engine::register_memory(void* address, std::uint64_t length,
                                                       Access access, PdId pd) {
  const auto i = static_cast<std::uint32_t>(pd);
  if (i >= pds_.size() || pds_[i] == 0) return Errc::not_found;
  const auto base = reinterpret_cast<std::uint64_t>(address);
  if (address == nullptr || length == 0 || base + length < base) return Errc::invalid_argument;
  if (has(access, Access::remote_write)) access = access | Access::local_write;
  return memory_.add(address, length, access, pd, random_);
}

MRC_DECL Errc Engine::deregister_memory(std::uint32_t key, bool force) noexcept {
  const MemoryEntry* e = memory_.find(key);
  if (e == nullptr) return Errc::not_found;
  if (e->uses > 0 && !force) return Errc::in_use;
  for (auto& qp : qps_) {
    if (e->uses == 0) break;
    if (!qp) continue;
    SendQueue& q = qp->tx.queue;
    for (std::uint32_t p = q.done(); p != q.posted(); ++p) {
      SendWqe& w = q.at(p);
      const LocalPiece* pieces = q.pieces(w);
      const auto uses_it = [key](const LocalPiece& piece) { return piece.lkey == key; };
      if (w.inlined || std::none_of(pieces, pieces + w.pieces, uses_it)) continue;
      fail(*qp, QpErrorCause::memory_withdrawn, WcStatus::loc_prot_err, p);
      break;
    }
  }
  memory_.remove(key);
  fail_overrun_queues();
  return Errc::ok;
}

MRC_DECL Result<CqId> Engine::create_cq(std::uint32_t depth) {
  if (depth == 0 || depth > detail::kMaxCqDepth) return Errc::invalid_argument;
  for (std::uint32_t i = 0; i < options_.max_cqs; ++i) {
    if (i == cqs_.size()) cqs_.emplace_back();
    if (cqs_[i]) continue;
    cqs_[i] = std::make_unique<CompletionRing>(depth);
    return CqId{i};
  }
  return Errc::no_resources;
}

MRC_DECL Errc Engine::destroy_cq(CqId id) noexcept {
  const CompletionRing* cq = cq_of(id);
  if (cq == nullptr) return Errc::not_found;
  if (cq->users > 0) return Errc::in_use;
  detail::drop(signalled_, id);  // its number will be used again
  detail::drop(overrun_, id);
  cqs_[static_cast<std::uint32_t>(id)].reset();
  return Errc::ok;
}

MRC_DECL Errc Engine::check(const QpInit& init) noexcept {
  const QpCapacity& c = init.capacity;
  const QpAttributes& a = init.attributes;
  const bool ok = c.send >= 1 && c.send <= detail::kMaxQueue && c.receive <= detail::kMaxQueue &&
                  c.send_sges <= kMaxSendSges && c.inline_bytes <= kMaxInlineBytes &&
                  a.mtu >= 256 && a.mtu <= 32'768 && std::has_single_bit(a.mtu) && a.mpr >= 1 &&
                  a.mpr_dest >= 1 && a.max_wimm >= 1 && a.max_wimm <= detail::kMaxQueue &&
                  a.max_wimm_dest >= 1 && a.max_wimm_dest <= detail::kMaxQueue &&
                  a.timeout <= reliability::kMaxTimeoutExponent && a.retry_linear <= 7 &&
                  a.retry_exponential <= reliability::kRetryForever;
  return ok ? Errc::ok : Errc::invalid_argument;
}

MRC_DECL Result<Qpn> Engine::create_qp(const QpInit& init) {
  if (const Errc e = check(init); e != Errc::ok) return e;
  const auto pd = static_cast<std::uint32_t>(init.pd);
  CompletionRing* send_cq = cq_of(init.send_cq);
  CompletionRing* receive_cq = cq_of(init.receive_cq);
  if (pd >= pds_.size() || pds_[pd] == 0 || send_cq == nullptr || receive_cq == nullptr)
    return Errc::not_found;
  if (free_qps_.empty()) return Errc::no_resources;
  const std::uint32_t index = free_qps_.front();
  const Qpn qpn{(std::uint32_t{options_.slot} << 16) | (index + kFirstUserQpn)};
  qps_[index] = std::make_unique<QueuePairState>(qpn, init, send_pool_, pool_);
  qps_[index]->start_psn = Psn{static_cast<std::uint32_t>(random_.next())};
  free_qps_.pop_front();
  ++send_cq->users;
  ++receive_cq->users;
  ++qp_count_;
  return qpn;
}

MRC_DECL Errc Engine::destroy_qp(Qpn qpn) noexcept {
  QueuePairState* qp = qp_of(qpn);
  if (qp == nullptr) return Errc::not_found;
  detach(*qp);
  detail::drop(failed_, qpn);
  --cq_of(qp->init.send_cq)->users;
  --cq_of(qp->init.receive_cq)->users;
  --qp_count_;
  const std::uint32_t index = (value(qpn) & 0xFFFF) - kFirstUserQpn;
  qps_[index].reset();
  free_qps_.push_back(index);  // the oldest free number is used first: late packets miss
  return Errc::ok;
}

/// Takes a queue pair out of everything that it shares, and empties its queues.
MRC_DECL void Engine::detach(QueuePairState& qp) noexcept {
  stop(qp);
  SendQueue& q = qp.tx.queue;
  for (std::uint32_t p = q.done(); p != q.posted(); ++p) return_memory(q.at(p));
  q.clear();
  qp.rx.receives.clear();
  held_tails_.drop(qp.rx.tails);
  // An answer of this incarnation, a NAK above all, must not reach the peer of the next one.
  control_.forget([&qp](const ControlItem& item) { return item.qpn == qp.qpn; });
  if (qp.peer != nullptr && --qp.peer->queue_pairs == 0) timers_.cancel(*qp.peer);
  qp.peer = nullptr;
}

/// A posted request is done with its local memory.
MRC_DECL void Engine::return_memory(SendWqe& wqe) noexcept {
  if (wqe.inlined) return;
  const LocalPiece* pieces = SendQueue::pieces(wqe);
  for (unsigned i = 0; i < wqe.pieces; ++i)
    if (MemoryEntry* e = memory_.find(pieces[i].lkey)) --e->uses;
}

MRC_DECL Result<PeerId> Engine::add_peer(const PeerSpec& spec) {
  detail::require(!spec.paths.empty(), "a peer needs at least one path");
  std::uint32_t i = 0;
  while (i < peers_.size() && peers_[i]) ++i;
  if (i >= options_.max_peers) return Errc::no_resources;
  auto peer = std::make_unique<Peer>(PeerId{i}, spec, options_, random_.next());
  peer->paths.set_probe_spacing(peer->congestion.base_rtt());
  for (const std::uint64_t tag : spec.source_tags)
    if (tag != 0) peer_by_source_[detail::source_key(tag, spec.slot)] = peer->id;
  if (i == peers_.size()) peers_.emplace_back();
  peers_[i] = std::move(peer);
  ++peer_count_;
  adjust_planes(*peers_[i]);
  return PeerId{i};
}

MRC_DECL Errc Engine::remove_peer(PeerId id) noexcept {
  Peer* peer = find_peer(id);
  if (peer == nullptr) return Errc::not_found;
  if (peer->queue_pairs > 0) return Errc::in_use;
  timers_.cancel(*peer);
  // Its number will be used again, by a peer with other paths.
  control_.forget([id](const ControlItem& item) { return item.qpn == Qpn{} && item.peer == id; });
  for (EndpointRequest& r : requests_)
    if (r.peer == id) r.open = false;
  for (const std::uint64_t tag : peer->source_tags) {
    const auto it = peer_by_source_.find(detail::source_key(tag, peer->slot));
    if (it != peer_by_source_.end() && it->second == id) peer_by_source_.erase(it);
  }
  peers_[value(id)].reset();
  --peer_count_;
  return Errc::ok;
}

/// Tells the path set which planes can be used: up here, up there, and with an address.
MRC_DECL void Engine::adjust_planes(Peer& peer) noexcept {
  const PlaneMask usable = usable_planes(peer);
  for (PlaneMask changed = usable ^ peer.paths.planes_up(); changed != 0; changed &= changed - 1) {
    const auto plane = static_cast<Plane>(std::countr_zero(changed));
    peer.paths.set_plane_up(plane, (usable & plane_bit(plane)) != 0);
  }
}

MRC_DECL QueuePairState* Engine::qp_of(Qpn qpn) noexcept {
  const std::uint32_t index = (value(qpn) & 0xFFFF) - kFirstUserQpn;
  if (slot_of(qpn) != options_.slot || index >= qps_.size()) return nullptr;
  return qps_[index].get();
}
MRC_DECL const QueuePairState* Engine::find_qp(Qpn qpn) const noexcept {
  return const_cast<Engine*>(this)->qp_of(qpn);
}
MRC_DECL CompletionRing* Engine::cq_of(CqId cq) noexcept {
  const auto i = static_cast<std::uint32_t>(cq);
  return i < cqs_.size() ? cqs_[i].get() : nullptr;
}
MRC_DECL const CompletionRing* Engine::find_cq(CqId cq) const noexcept {
  return const_cast<Engine*>(this)->cq_of(cq);
}
MRC_DECL Peer* Engine::find_peer(PeerId peer) noexcept {
  return value(peer) < peers_.size() ? peers_[value(peer)].get() : nullptr;
}
MRC_DECL const Peer* Engine::find_peer(PeerId peer) const noexcept {
  return const_cast<Engine*>(this)->find_peer(peer);
}

MRC_DECL QpStats Engine::qp_stats(const QueuePairState& qp) const noexcept {
  QpStats s = qp.stats;
  s.smoothed_rtt_ns = static_cast<std::uint32_t>(
      std::clamp<Duration::rep>(qp.tx.rtt.smoothed().count(), 0, 0xFFFFFFFF));
  s.outstanding = qp.tx.window.outstanding();
  if (qp.peer != nullptr) {
    s.cwnd = qp.peer->congestion.window();
    s.inflight = qp.peer->congestion.inflight();
  }
  return s;
}

}  // namespace mrc::inline v0_1::engine
