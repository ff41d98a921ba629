// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/engine.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "mrc/engine/requester.inl"

namespace mrc::inline v0_1::engine {

// Engine: inputs and outputs, distributed to the parts.

/// Checks of destination, state and source (mrc-1.0 §2.13), then to requester or responder.
[[gnu::always_inline]] inline void Engine::receive_one(Time now,
                                                       const wire::RxPacket& packet) noexcept {
  DropStats& drops = ctx_.stats.drops;
  if (packet.trim != wire::Trim::none) return responder_.on_trimmed(now, packet);
  if (wire::check(packet.bytes) != wire::ParseError::none || packet.plane >= kMaxPlanes) {
    ++drops.malformed;
    return;
  }
  const auto& bth = wire::view_as<wire::Bth>(packet.bytes);
  const wire::Opcode opcode = bth.opcode();
  if (opcode == wire::Opcode::resolution) [[unlikely]] {  // its purpose is to get a tag
    if (admit(nullptr, bth, packet)) endpoint_.on_resolution(packet);
    return;
  }
  if (wire::is_datagram(opcode)) [[unlikely]]
    return receive_datagram(packet);
  QueuePairState* qp = ctx_.objects.qp(bth.dqp());
  if (!admit(qp, bth, packet)) return;
  if (opcode == wire::Opcode::endpoint_request || opcode == wire::Opcode::endpoint_response)
    return receive_endpoint(now, packet, qp);
  if (qp == nullptr) {
    ++drops.unknown_qp;
    return;
  }
  if (qp->state == QpState::reset || qp->state == QpState::init || qp->peer == nullptr) {
    if (!keep_early(*qp, packet, bth)) ++drops.wrong_state;
    return;
  }
  if (!qp->peer->came_from_here(packet.plane, packet.source)) {
    ++drops.foreign;
    return;
  }
  if ((qp->peer->trusted & plane_bit(packet.plane)) == 0) [[unlikely]]
    endpoint_.on_traffic(now, *qp->peer, packet.plane);
  if (opcode == wire::Opcode::packet_part) [[unlikely]]
    return receive_part(now, *qp, packet);
  const bool to_responder = wire::is_data(opcode) || opcode == wire::Opcode::probe;
  if (qp->state == QpState::err) {
    ++drops.wrong_state;
    if (to_responder) responder_.answer_in_error(now, *qp, packet, bth.psn());
    return;
  }
  if (to_responder) {
    if (opcode == wire::Opcode::probe)
      responder_.on_probe(now, *qp, packet);
    else
      responder_.on_data(now, *qp, packet);
    return;
  }
  ++ctx_.stats.rx_control;
  if (!qp->active) {
    ++drops.wrong_state;
    return;
  }
  qp->peer->answered = now;
  switch (opcode) {
    case wire::Opcode::sack:
      requester_.on_sack(now, *qp, packet);
      return resume(*qp, packet.plane);
    case wire::Opcode::nack:
      return requester_.on_nack(now, *qp, packet);
    default:
      requester_.on_ack(now, *qp, packet);
      return resume(*qp, packet.plane);
  }
}

/// Only connections with tags have parts: nobody else can put one into a packet.
void Engine::receive_part(Time now, const QueuePairState& qp, const wire::RxPacket& part) noexcept {
  bool malformed = !qp.expected;
  std::optional<wire::RxPacket> whole;
  if (!malformed) whole = ctx_.parts.add(now, part, malformed);
  ++(malformed ? ctx_.stats.drops.malformed : ctx_.stats.rx_parts);
  if (whole) receive_one(now, *whole);
}

/// Responses that are done, and read by no port any more, leave room for others.
void Engine::resume(QueuePairState& qp, Plane plane) noexcept {
  if (qp.rc && qp.active && qp.receiving && !qp.rc_state->requests.empty())
    responder_.resume(ctx_.latest, qp, plane);
}

/// Judges the iCRC, which a tag is a part of. Only the connection's packets carry its tag; without
/// a connection, or with a peer that has none, the iCRC has to be plain.
[[gnu::always_inline]] inline bool Engine::admit(QueuePairState* qp, const wire::Bth& bth,
                                                 const wire::RxPacket& packet) noexcept {
  if (qp != nullptr ? qp->admits(bth, packet.check) : packet.check == 0) [[likely]]
    return true;
  DropStats& drops = ctx_.stats.drops;
  const wire::Tag none;
  // With the right bits in its BTH it was damaged. With those of another connection, or with none
  // where there should be some, it is not from this peer.
  if ((qp == nullptr || qp->peer == nullptr) && !none.is_in(bth)) {
    ++(qp == nullptr ? drops.unknown_qp : drops.wrong_state);
  } else if (qp != nullptr && qp->expected && !qp->expected.is_in(bth)) {
    ++drops.bad_tag;
  } else {
    ++drops.bad_icrc;
    ++bad_icrc_[packet.plane];
  }
  return false;
}

/// A packet of a peer that is not known: see early().
bool Engine::keep_early(const QueuePairState& qp, const wire::RxPacket& packet,
                        const wire::Bth& bth) noexcept {
  const bool waits = qp.peer == nullptr && (qp.state == QpState::rtr || qp.state == QpState::rts);
  const std::int32_t ahead = bth.psn() - qp.remote.start_psn;
  if (!waits || !wire::is_data(bth.opcode()) || ahead < 0 ||
      ahead >= static_cast<std::int32_t>(qp.rx.window.range()) ||
      early_.size() >= ctx_.options.early_packets)
    return false;
  early_.push_back(packet);  // room is reserved
  return true;
}

void Engine::forget_early(std::size_t taken) noexcept {
  ctx_.stats.drops.wrong_state += early_.size() - taken;
  early_.clear();
}

/// While a batch of packets is processed, the state of the next one's queue pairs and the headers
/// of the one behind it are fetched.
void Engine::receive_many(Time now, std::span<const wire::RxPacket> packets) noexcept {
  constexpr std::size_t kBatch = Lookahead::kBatch;
  const auto batch = [&](std::size_t begin) {
    begin = std::min(begin, packets.size());
    return packets.subspan(begin, std::min(kBatch, packets.size() - begin));
  };
  const auto fetch_headers = [&](std::size_t begin) {
    for (const wire::RxPacket& packet : batch(begin)) prefetch(packet.bytes.data());
  };
  fetch_headers(0);
  fetch_headers(kBatch);
  ctx_.lookahead.announce(batch(0));
  for (std::size_t begin = 0; begin < packets.size(); begin += kBatch) {
    fetch_headers(begin + 2 * kBatch);
    ctx_.lookahead.deepen();
    ctx_.lookahead.announce(batch(begin + kBatch));
    for (const wire::RxPacket& packet : batch(begin)) receive_one(now, packet);
  }
}

void Engine::receive(Time now, std::span<const wire::RxPacket> packets) noexcept {
  now = ctx_.forward(now);
  if (ctx_.lookahead.pays()) {
    receive_many(now, packets);
  } else {
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (i + 1 < packets.size()) __builtin_prefetch(packets[i + 1].bytes.data());
      receive_one(now, packets[i]);
    }
  }
  teardown_.fail_overrun_queues();
}

/// Datagrams belong to no connection: their iCRC has to be plain.
void Engine::receive_datagram(const wire::RxPacket& packet) noexcept {
  if (packet.check == 0) {
    if (ctx_.service) return ctx_.service->on_datagram(packet);
    ++ctx_.stats.drops.unknown_qp;
    return;
  }
  ++ctx_.stats.drops.bad_icrc;
  ++bad_icrc_[packet.plane];
}

/// `via`: the queue pair that it is addressed to, whose tag it carries; null if to QPN 2.
void Engine::receive_endpoint(Time now, const wire::RxPacket& packet,
                              QueuePairState* via) noexcept {
  const auto& bth = wire::view_as<wire::Bth>(packet.bytes);
  if (via != nullptr && via->peer == nullptr)
    ++ctx_.stats.drops.wrong_state;
  else if (via != nullptr ? !via->expected : bth.dqp() != kEndpointQpn)
    ++ctx_.stats.drops.malformed;
  else if (bth.opcode() == wire::Opcode::endpoint_request)
    endpoint_.on_request(now, packet, via);
  else
    endpoint_.on_response(now, packet, via);
}

void Engine::on_time(Time now) noexcept {
  now = ctx_.forward(now);
  ctx_.timers.expire(now, [&](EngineTimer& timer) {
    if (timer.owner == EngineTimer::Owner::peer)
      return endpoint_.on_timer(now, static_cast<Peer&>(timer));
    auto& qp = static_cast<QueuePairState&>(timer);
    responder_.on_timer(now, qp);
    requester_.on_timer(now, qp);
  });
  teardown_.fail_overrun_queues();
}

void Engine::set_plane_up(Time now, Plane plane, bool up) noexcept {
  endpoint_.set_plane_up(ctx_.forward(now), plane, up);
  if (ctx_.service) ctx_.service->wake();
}

void Engine::on_released(std::span<const wire::CopyId> copies) noexcept {
  const bool full = ctx_.copies.room() < kMaxSendSges;
  for (const wire::CopyId copy : copies) {
    QueuePairState* qp = ctx_.release_payload(copy);
    if (qp == nullptr) continue;
    ctx_.retire(*qp);
    resume(*qp, 0);
  }
  if (full) {
    ctx_.ready.wake_all();
    if (ctx_.service) ctx_.service->wake();
  }
  teardown_.fail_overrun_queues();
}

void Engine::on_settled(Time now, Plane plane, std::span<const wire::PacketName> packets) noexcept {
  now = ctx_.forward(now);
  for (const wire::PacketName& packet : packets) {
    QueuePairState* qp = ctx_.objects.qp(packet.qpn);
    if (qp != nullptr && qp->peer != nullptr &&
        (qp->state == QpState::rtr || qp->state == QpState::rts))
      responder_.on_settled(now, *qp, plane, packet.psn);
  }
  teardown_.fail_overrun_queues();
}

void Engine::on_untransmitted(Time now, std::span<const wire::TxPacket> packets) noexcept {
  requester_.on_untransmitted(ctx_.forward(now), packets);
  if (ctx_.service) ctx_.service->on_untransmitted(packets);
  if (ctx_.options.holding_planes == 0) return;
  for (const wire::TxPacket& packet : packets) on_released({&packet.copy, 1});
}

void Engine::poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  teardown_.fail_overrun_queues();
  scheduler_.poll_transmit(ctx_.forward(now), free_planes, burst);
}

bool Engine::poll_event(Event& event) noexcept {
  if (!ctx_.completions.poll_event(event)) return false;
  if (event.kind == Event::Kind::qp_error) {
    if (QueuePairState* qp = ctx_.objects.qp(event.qpn)) {
      qp->error_reported = false;
      event.cause = qp->cause;
    } else if (ctx_.service) {
      event.cause = ctx_.service->on_error_told(event.qpn);
    }
  }
  return true;
}

// Engine: creating and destroying objects.

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
  ctx_.service.reset();
  ctx_.objects.for_each_peer([this](Peer& peer) { ctx_.timers.cancel(peer); });
}

// ------------------------------------------------------- protection domains and memory regions

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
  return used || (ctx_.service && ctx_.service->uses_pd(pd));
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
  if (ctx_.service) ctx_.service->withdraw(key);
  ctx_.memory.remove(key);
  teardown_.fail_overrun_queues();
  return Errc::ok;
}

// -------------------------------------------------------------------------- completion queues

std::size_t Engine::poll_cq(CqId cq, std::span<Completion> out) noexcept {
  const std::size_t n = ctx_.completions.poll(cq, out);
  if (n == 0 || !ctx_.completions.find(cq)->keeps) return n;
  for (const Completion& c : out.first(n)) ctx_.on_polled(c);
  return n;
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

// Engine: the states of a queue pair (mrc-1.0 §2.11), and posting, which depends on them.

Result<Psn> Engine::start_psn(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->rc_state ? qp->rc_state->drawn_psn : qp->start_psn;
}

Result<std::uint64_t> Engine::tag(Qpn qpn) const noexcept {
  const QueuePairState* qp = find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  return qp->tag.bits();
}

/// What the next connection begins with.
void Engine::renew(QueuePairState& qp) noexcept {
  qp.start_psn = Psn{static_cast<std::uint32_t>(ctx_.secrets.next())};
  qp.tag = wire::Tag::make(ctx_.secrets.next(), ctx_.options.icrc);
}

Errc Engine::to_init(Qpn qpn) noexcept {
  return with_qp(qpn, [](QueuePairState& qp) {
    if (qp.state != QpState::reset) return Errc::invalid_state;
    qp.state = QpState::init;
    return Errc::ok;
  });
}

Errc Engine::to_rtr(Qpn qpn, const RemoteQp& remote, const RtrAttributes& own) {
  return with_qp(qpn, [&](QueuePairState& qp) {
    Peer* peer = ctx_.objects.peer(remote.peer);
    if (peer == nullptr) return Errc::not_found;
    if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0) return Errc::incompatible;
    if (const Errc e = enter_rtr(qp, remote, own, remote.rc); e != Errc::ok) return e;
    attach(qp, remote, *peer);
    if (qp.rc) begin_sending(ctx_.latest, qp);
    return Errc::ok;
  });
}

Errc Engine::to_rtr_unresolved(Qpn qpn, const RemoteQp& remote, const RtrAttributes& own) {
  return with_qp(qpn, [&](QueuePairState& qp) { return enter_rtr(qp, remote, own, true); });
}

Errc Engine::enter_rtr(QueuePairState& qp, const RemoteQp& remote, const RtrAttributes& own,
                       bool may_be_rc) {
  if (qp.state != QpState::init) return Errc::invalid_state;
  const std::uint32_t mtu = remote.mtu == 0 ? qp.attributes.mtu : remote.mtu;
  if (mtu > qp.attributes.mtu || !is_mtu(mtu)) return Errc::incompatible;
  const QpAttributes a = with(qp.attributes, own);
  if (out_of_range(a)) return Errc::invalid_argument;
  size_responder(qp, a);
  qp.tx.window.resize(a.mpr * kMprUnit);  // with RC it may be used from now on
  // While the peer is not known it may turn out to offer RC, even after a while.
  qp.rc_state = a.rc && may_be_rc ? std::make_unique<RcState>(a, ctx_.writes) : nullptr;
  if (qp.rc_state) qp.rc_state->drawn_psn = qp.start_psn;
  qp.attributes = a;
  qp.remote = remote;
  qp.trims_given = own.trim_nack.has_value();
  qp.trims = own.trim_nack.value_or(false);
  qp.mtu = qp.rtr_mtu = mtu;
  qp.heard = false;
  qp.state = QpState::rtr;
  return Errc::ok;
}

void Engine::size_responder(QueuePairState& qp, const QpAttributes& a) {
  qp.rx.resize(a);
  if (qp.init.srq && qp.rx.receives.capacity() < a.max_wimm_dest)
    qp.rx.receives = ReceiveQueue(a.max_wimm_dest, qp.rx.receives.sge_limit());
}

/// As far as they can still change: see RtsAttributes.
void Engine::change_responder(QueuePairState& qp, QpAttributes& wanted) {
  const QpAttributes& now = qp.attributes;
  if (qp.heard) {
    wanted.mpr_dest = now.mpr_dest;
    wanted.max_wimm_dest = now.max_wimm_dest;
  } else if (qp.peer != nullptr) {
    wanted.mpr_dest = std::max(wanted.mpr_dest, now.mpr_dest);
    wanted.max_wimm_dest = std::max(wanted.max_wimm_dest, now.max_wimm_dest);
  }
  if (wanted.mpr_dest == now.mpr_dest && wanted.max_wimm_dest == now.max_wimm_dest) return;
  size_responder(qp, wanted);
  qp.attributes.mpr_dest = wanted.mpr_dest;
  qp.attributes.max_wimm_dest = wanted.max_wimm_dest;
  if (qp.peer != nullptr) responder_.start(qp);
}

void Engine::attach(QueuePairState& qp, const RemoteQp& remote, Peer& peer) noexcept {
  qp.remote = remote;
  if (qp.trims_given) qp.remote.trim_nack = qp.trims;
  qp.peer = &peer;
  ++peer.queue_pairs;
  qp.remote_tag = wire::Tag(remote.tag);
  qp.expected = qp.remote_tag ? qp.tag : wire::Tag();
  qp.remote.parts = remote.parts && qp.remote_tag && ctx_.options.part_places > 0;
  if (qp.remote_tag) peer.tagged.push_back(qp);
  if (qp.sharers != 0) peer.congestion.on_hint(qp.sharers);
  qp.rc = remote.rc && qp.rc_state != nullptr;
  if (qp.rc_state)
    qp.start_psn =
        qp.rc ? qp.rc_state->drawn_psn : qp.rc_state->own_psn.value_or(qp.rc_state->drawn_psn);
  responder_.start(qp);
}

void Engine::begin_sending(Time now, QueuePairState& qp) noexcept {
  if (!qp.active) requester_.start(qp);
  qp.active = true;
  requester_.attach(now, qp);
  qp.peer->largest_payload = std::max(qp.peer->largest_payload, qp.mtu);
  if (qp.remote.parts) qp.peer->sizes.allow_probes();
  endpoint_.on_connected(now, *qp.peer);
}

/// The oldest request that the peer, which was not known when it was posted, does not offer.
std::optional<std::uint32_t> Engine::unsupported_request(QueuePairState& qp) noexcept {
  const SendQueue& q = qp.tx.queue;
  if (qp.rc && qp.remote.max_rd_atomic_dest > 0) return std::nullopt;
  for (std::uint32_t p = q.done(); p != q.posted(); ++p) {
    const bool write = is_write(static_cast<SendOpcode>(q.at(p).kind));
    if (qp.rc ? q.at(p).is_request() : !write) return p;
  }
  return std::nullopt;
}

Errc Engine::to_rts(Qpn qpn, Time now, const RtsAttributes& own) {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state != QpState::rtr) return Errc::invalid_state;
    QpAttributes a = with(qp.attributes, own);
    if (out_of_range(a)) return Errc::invalid_argument;
    change_responder(qp, a);
    if (qp.rc_state) qp.rc_state->reads.reserve(a.max_rd_atomic);
    if (qp.active) {  // it answers since it is in RTR, under the number that the peer knows
      if (a.mpr > qp.attributes.mpr && !qp.tx.window.empty()) a.mpr = qp.attributes.mpr;
      if (a.mpr > qp.attributes.mpr) {
        qp.tx.window.resize(a.mpr * kMprUnit);
        qp.tx.probe_order = 0;
      }
      qp.attributes = a;
      requester_.change_limits(qp);
      qp.state = QpState::rts;
      return Errc::ok;
    }
    qp.tx.window.resize(a.mpr * kMprUnit);
    qp.attributes = a;
    if (own.send_psn) qp.start_psn = *own.send_psn;
    if (qp.rc_state) qp.rc_state->own_psn = own.send_psn;
    requester_.start(qp);
    qp.state = QpState::rts;
    qp.active = true;
    if (qp.peer != nullptr) begin_sending(now, qp);
    return Errc::ok;
  });
}

Errc Engine::resolve(Time now, Qpn qpn, const RemoteQp& known) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if ((qp.state != QpState::rtr && qp.state != QpState::rts) || qp.heard)
      return Errc::invalid_state;
    Peer* peer = ctx_.objects.peer(known.peer);
    if (peer == nullptr) return Errc::not_found;
    RemoteQp remote = known;
    remote.qpn = qp.remote.qpn;
    // Between OpenMRC peers the number counts that the peer has drawn: a program's own is known
    // only when it moves to RTS, and the peer may have to answer before that.
    if (!remote.rc || !qp.rc_state) remote.start_psn = qp.remote.start_psn;
    const std::uint32_t mtu = remote.mtu == 0 ? qp.rtr_mtu : std::min(qp.rtr_mtu, remote.mtu);
    if (remote.mpr_dest == 0 || remote.max_wimm_dest == 0 || !is_mtu(mtu))
      return Errc::incompatible;
    teardown_.leave_peer(qp);
    SendQueue& q = qp.tx.queue;
    if (std::exchange(qp.mtu, mtu) != mtu)
      for (std::uint32_t p = q.done(); p != q.posted(); ++p)
        q.at(p).packets = packets_of(q.at(p).length, mtu);
    attach(qp, remote, *peer);
    qp.active = qp.active && (qp.rc || qp.state == QpState::rts);
    if (qp.state != QpState::rts && !qp.rc) return Errc::ok;
    begin_sending(now, qp);
    if (const auto position = unsupported_request(qp)) {
      teardown_.fail(qp, QpErrorCause::unsupported, WcStatus::loc_qp_op_err, position);
      teardown_.fail_overrun_queues();
      return Errc::ok;
    }
    ctx_.ready.update(qp);
    ctx_.rearm(qp, now);
    return Errc::ok;
  });
}

Errc Engine::fail(Qpn qpn, QpErrorCause cause) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::reset) return Errc::invalid_state;
    if (cause == QpErrorCause::requested)
      teardown_.fail(qp, cause, WcStatus::wr_flush_err);
    else
      teardown_.fail(qp, cause, WcStatus::retry_exc_err, qp.tx.queue.done());
    teardown_.fail_overrun_queues();
    return Errc::ok;
  });
}

void Engine::send_held_ack(Qpn qpn) noexcept {
  if (QueuePairState* qp = ctx_.objects.qp(qpn)) ctx_.queue_held_ack(*qp);
}

void Engine::send_held_acks() noexcept {
  ctx_.objects.for_each_qp([this](QueuePairState& qp) { ctx_.queue_held_ack(qp); });
}

Errc Engine::to_reset(Qpn qpn) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    teardown_.detach(qp);
    forget_completions(qp);
    qp.rc_state = nullptr;  // with the number that the former peer was told
    qp.state = QpState::reset;
    qp.cause = QpErrorCause::none;
    qp.receiving = true;
    renew(qp);
    return Errc::ok;
  });
}

/// No completion of a queue pair that is as in verbs can be polled any more, and it keeps no slot.
void Engine::forget_completions(QueuePairState& qp) noexcept {
  if (!qp.init.as_verbs) return;
  ctx_.discard_completions(qp.qpn, qp.init.send_cq, qp.init.receive_cq);
  qp.rx.receives.free_slots();
}

Errc Engine::discard_completions(Qpn qpn) noexcept {
  return with_qp(qpn, [this](QueuePairState& qp) {
    if (!qp.init.as_verbs) return Errc::unsupported;
    ctx_.discard_completions(qp.qpn, qp.init.send_cq, qp.init.receive_cq);
    return Errc::ok;
  });
}

Errc Engine::complete_send(Qpn qpn, std::uint64_t wr_id, SendOpcode opcode,
                           WcStatus status) noexcept {
  Completion c;
  c.wr_id = wr_id;
  c.qpn = qpn;
  c.opcode = detail::completes_as(static_cast<MessageKind>(opcode));
  c.status = status;
  c.made = true;
  if (QueuePairState* qp = ctx_.objects.qp(qpn))
    return teardown_.complete_send(qp->tx.queue, qp->init, c);
  if (ctx_.service) return ctx_.service->complete_send(c);
  return Errc::not_found;
}

Errc Engine::set_sharers(Qpn qpn, std::uint64_t sharers) noexcept {
  return with_qp(qpn, [=](QueuePairState& qp) {
    qp.sharers = static_cast<std::uint32_t>(std::min<std::uint64_t>(sharers, UINT32_MAX));
    if (qp.peer != nullptr) qp.peer->congestion.on_hint(sharers);
    return Errc::ok;
  });
}

Errc Engine::set_peer_rights(Qpn qpn, Access rights) noexcept {
  return with_qp(qpn, [=](QueuePairState& qp) {
    qp.peer_rights = rights;
    return Errc::ok;
  });
}

Errc Engine::stop_receiving(Qpn qpn) noexcept {
  return with_qp(qpn, [this](QueuePairState& qp) {
    qp.receiving = false;
    teardown_.discard_receives(qp);
    return Errc::ok;
  });
}

Errc Engine::set_mpr(Qpn qpn, std::uint8_t units) noexcept {
  return with_qp(qpn, [=](QueuePairState& qp) {
    if (units == 0 || units > qp.attributes.mpr_dest) return Errc::invalid_argument;
    if (qp.rx.mpr == 0) return Errc::invalid_state;
    qp.rx.mpr = units;
    return Errc::ok;
  });
}

Errc Engine::post_send(Qpn qpn, const SendRequest& request, Time now) noexcept {
  now = ctx_.forward(now);
  return with_qp(qpn, [&](QueuePairState& qp) {
    if (qp.state == QpState::rts) [[likely]]
      return requester_.post(now, qp, request);
    if (qp.state == QpState::err && qp.init.as_verbs) return teardown_.flush_posted(qp, request);
    return Errc::invalid_state;
  });
}

Errc Engine::post_receive(Qpn qpn, const ReceiveRequest& request) noexcept {
  return with_qp(qpn, [&](QueuePairState& qp) {
    const bool flushes = qp.state == QpState::err && qp.init.as_verbs;
    if ((qp.state == QpState::reset || qp.state == QpState::err) && !flushes)
      return Errc::invalid_state;
    if (qp.init.srq) return Errc::unsupported;  // its receives are posted there
    if (flushes) return teardown_.flush_posted(qpn, qp.rx.receives, qp.init.receive_cq, request);
    return ctx_.post_receive(qp.rx.receives, qp.init.pd, request);
  });
}

}  // namespace mrc::inline v0_1::engine
