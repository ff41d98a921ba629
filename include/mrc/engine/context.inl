// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/context.hpp"

#include <bit>
#include <numeric>
#include <utility>

#include "mrc/engine/scheduler.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

inline constexpr std::array<WcOpcode, 7> kCompletesAs = {
    WcOpcode::write, WcOpcode::write_imm,    WcOpcode::send,     WcOpcode::send,
    WcOpcode::read,  WcOpcode::compare_swap, WcOpcode::fetch_add};

[[nodiscard]] constexpr WcOpcode completes_as(MessageKind kind) noexcept {
  return kCompletesAs[static_cast<std::size_t>(kind)];
}

}  // namespace detail

void Context::queue_ack(QueuePairState& qp, Plane plane, bool again) noexcept {
  qp.rx.finished.due = false;
  qp.rx.ack_by = kNever;
  if (qp.rx.ack_queued) return;
  ControlItem item;
  item.kind = ControlItem::Kind::ack;
  item.qpn = qp.qpn;
  item.again = again;
  item.plane = plane;
  qp.rx.ack_queued = control.push(item);
  if (!qp.rx.ack_queued) ++stats.drops.control_overflow;
}

void Context::rearm(QueuePairState& qp, Time now) noexcept {
  if (!qp.active) return timers.cancel(qp);
  timers.arm(qp, now);
}

Errc Context::post_receive(ReceiveQueue& receives, PdId pd,
                           const ReceiveRequest& request) noexcept {
  if (receives.full()) return Errc::queue_full;
  if (request.sges.size() > receives.sge_limit()) return Errc::too_many_sges;
  for (const Sge& s : request.sges)
    if (const Errc e = memory.check_local(s, pd, Access::local_write); e != Errc::ok) return e;
  std::span<ReceiveSge> list = receives.post(request.wr_id, request.sges.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Sge& s = request.sges[i];
    list[i] = {static_cast<std::uint8_t*>(const_cast<void*>(s.address)), s.length, s.lkey};
    ++memory.find(s.lkey)->uses;
  }
  return Errc::ok;
}

bool Context::complete(CqId cq, const Completion& c, bool as_verbs) noexcept {
  const bool room = completions.complete(cq, c);
  if (!room && as_verbs) on_polled(c);
  return room;
}

/// One that came from a shared queue has kept its slot there since it was taken.
bool Context::complete_receive(QueuePairState& qp, const Completion& c) noexcept {
  release_receive(qp.rx.receives);
  if (qp.init.as_verbs && !qp.init.srq) qp.rx.receives.keep_slot();
  return complete(qp.init.receive_cq, c, qp.init.as_verbs);
}

void Context::on_polled(const Completion& c) noexcept {
  if (QueuePairState* qp = objects.qp(c.qpn)) {
    if (qp->init.as_verbs) free_slot(c, qp->tx.queue, qp->rx.receives, qp->init.srq);
  } else if (service != nullptr) {
    service->on_polled(c);
  }
}

void Context::discard_completions(Qpn qpn, CqId send_cq, CqId receive_cq) noexcept {
  const auto discard = [&](CqId cq) {
    completions.find(cq)->discard(qpn, [this](const Completion& c) { on_polled(c); });
  };
  discard(send_cq);
  if (receive_cq != send_cq) discard(receive_cq);
}

void Context::note_taken(SharedReceiveQueue& srq) noexcept {
  if (srq.receives.size() >= srq.limit) return;
  srq.limit = 0;
  completions.forget(srq.id);
  completions.report_srq_limit(srq.id);
}

void Context::hold_payload(QueuePairState& qp, const SendQueue& queue, std::uint32_t position,
                           wire::TxBurst& burst) noexcept {
  const bool response = &queue != &qp.tx.queue;
  if (hold_regions({qp.qpn, position, response}, burst))
    ++queue_of(qp, response).at(position).copies;
}

bool Context::hold_regions(const CopyTable::Request& request, wire::TxBurst& burst) noexcept {
  wire::TxPacket& packet = burst.newest();
  for (const wire::TxSge& sge : burst.sges(packet)) {
    if (sge.region == 0) continue;
    memory.hold(sge.region);
    if (packet.copy == wire::CopyId::none)
      packet.copy = copies.add(request, sge.region);
    else
      copies.add_region(packet.copy, sge.region);
  }
  return packet.copy != wire::CopyId::none;
}

QueuePairState* Context::release_payload(wire::CopyId copy) noexcept {
  const auto request = copies.remove(copy, [this](std::uint32_t key) { memory.release(key); });
  if (!request) return nullptr;
  QueuePairState* qp = objects.qp(request->qpn);
  if (qp != nullptr)
    --queue_of(*qp, request->response).at(request->position).copies;
  else if (service != nullptr)
    service->on_released(*request);
  return qp;
}

void Context::finish(QueuePairState& qp) noexcept {
  SendQueue& q = qp.tx.queue;
  const ReadTable& reads = qp.rc_state->reads;
  while (q.done() != q.acknowledged()) {
    const SendWqe& w = q.at(q.done());
    if (w.is_request() && reads.waits(RequestNumber{w.rqmsn})) return;
    q.finish();
  }
}

void Context::retire(QueuePairState& qp) noexcept {
  if (qp.rc) {
    SendQueue& r = qp.rc_state->responses;
    const std::uint32_t end = qp.state == QpState::err ? r.posted() : r.done();
    while (r.retired() != end && r.at(r.retired()).copies == 0) {
      release_memory(r.at(r.retired()));
      if (r.retired() == r.done()) r.finish();
      r.retire();
    }
  }
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
    c.opcode = detail::completes_as(w.kind);
    c.position = static_cast<std::uint16_t>(position);
    if (w.is_request()) c.byte_len = w.message_length();
    const bool done = position != q.done();  // else q.done() is not behind it yet
    if (!done) {
      c.status = qp.tx.failed == position ? qp.tx.failed_status : WcStatus::wr_flush_err;
      q.finish();
    }
    const bool report = !done || w.flags.signaled;
    qp.stats.writes_completed += done;
    q.retire();
    if (report) complete(qp.init.send_cq, c, qp.init.as_verbs);
  }
}

[[gnu::always_inline]] inline void Context::release_memory(SendWqe& wqe) noexcept {
  if (wqe.flags.inline_data) return;
  const LocalSge* sges = SendQueue::sges(wqe);
  for (unsigned i = 0; i < wqe.sges; ++i)
    if (MemoryEntry* e = memory.find(sges[i].lkey)) --e->uses;
}

void ReadyQueue::update(QueuePairState& qp) noexcept {
  if (!qp.active) return;
  RequesterState& tx = qp.tx;
  if (qp.starved && tx.window.lost() > 0) remove(qp);  // a retransmission has its record already
  if (!qp.ready_hook.is_linked()) {
    bool ready = tx.window.lost() > 0 || tx.repeat_last;
    if (!ready && tx.window.open(tx.range)) {
      ready = tx.next_packet != 0 ||
              (tx.queue.backlog() && qp.may_start(tx.queue.at(tx.queue.sending()))) ||
              (qp.rc && qp.rc_state->responses.backlog());
    }
    if (!ready) return;
    if (tx.window_exempt)
      qp.peer->ready.push_front(qp);
    else
      qp.peer->ready.push_back(qp);
  }
  wake(*qp.peer);
}

void ReadyQueue::wake_all() noexcept {
  starved_ = false;
  objects_.for_each_peer([this](Peer& peer) {
    for (QueuePairState& qp : peer.starved) qp.starved = false;
    peer.ready.splice(peer.ready.end(), peer.starved);
    wake(peer);
  });
}

void ReadyQueue::exempt(QueuePairState& qp) noexcept {
  qp.tx.window_exempt = true;
  if (!qp.ready_hook.is_linked() || qp.starved) return;
  qp.ready_hook.unlink();
  qp.peer->ready.push_front(qp);
}

void ReadyQueue::exempt_waiting(Time now, Peer& peer, Duration timeout) noexcept {
  if (now - std::max(peer.answered, peer.exempted) < timeout) return;
  peer.exempted = now;
  for (auto next = peer.ready.begin(); next != peer.ready.end();) {
    QueuePairState& qp = *next++;
    if (qp.tx.window.empty()) exempt(qp);
  }
  wake(peer);
}

namespace detail {

/// Most reliability probes without progress; after them only the retransmission timer is left
/// (mrc-1.0 §5, [O-6]).
inline constexpr std::uint8_t kMaxProbes = 5;

}  // namespace detail

Duration Timers::round_trip(const QueuePairState& qp) noexcept {
  const cc::Controller& c = qp.peer->congestion;
  return std::max(c.base_rtt() + c.target_qdelay(), qp.tx.rtt.bound());
}

/// The probe was sent a usual round trip after the packet, and has arrived: a packet that is only
/// late would be on a path that takes so much longer. If the answer has taken longer than usual,
/// that of the packet may.
Duration Timers::probed_age(const QueuePairState& qp) noexcept {
  const cc::Controller& c = qp.peer->congestion;
  const reliability::RttEstimator& rtt = qp.tx.rtt;
  return std::max({c.base_rtt() + c.target_qdelay(), rtt.usual(), rtt.recent()});
}

bool Timers::awaits_peer(const QueuePairState& qp) noexcept {
  const RequesterState& tx = qp.tx;
  if (qp.peer == nullptr) return false;  // it is not known yet
  return !tx.window.empty() || awaits_answer(qp) ||
         (qp.backlog() && qp.peer->paths.usable_planes() == 0);
}

Duration Timers::timeout_floor(const QueuePairState& qp) noexcept {
  return std::max(2 * qp.peer->congestion.base_rtt(), qp.tx.rtt.bound());
}

Time Timers::retransmission_deadline(const QueuePairState& qp) const noexcept {
  // Who waits for a receive at the peer does not wait for the peer.
  const bool waits = qp.rc && qp.rc_state->receiver.waiting && qp.rc_state->receiver.oldest;
  const Time start =
      waits ? std::max(qp.tx.timer_start, qp.rc_state->receiver.until) : qp.tx.timer_start;
  const Duration stalled = start < stall_.end ? stall_.length : Duration::zero();
  return start + qp.tx.retries.timeout(timeout_floor(qp)) + qp.tx.patience + stalled;
}

Time Timers::probe_deadline(const QueuePairState& qp) noexcept {
  const RequesterState& tx = qp.tx;
  const bool silent = tx.window.outstanding() > 0 || awaits_answer(qp);
  if (tx.probes >= detail::kMaxProbes || !silent) return kNever;
  const cc::Controller& c = qp.peer->congestion;
  const Duration usual = tx.rtt.usual();
  Duration wait = usual == Duration{} ? c.base_rtt() + c.target_qdelay()
                                      : std::max(usual, c.base_rtt() + c.base_rtt() / 4);
  if (qp.backlog()) wait = std::max(wait, 3 * c.base_rtt());
  if (tx.probes > 1) wait *= 1 << (tx.probes - 1);
  return std::max(tx.last_sent + tx.patience, tx.probe_sent) + wait;
}

void Timers::arm(QueuePairState& qp, Time now) noexcept {
  const RequesterState& tx = qp.tx;
  Time due = qp.rx.ack_by;
  if (!awaits_peer(qp)) {
    // A pause, or the wait for a receive at the peer, with data queued still has to end, even if
    // nothing is outstanding.
    const bool waits = qp.rc && qp.rc_state->receiver.waiting;
    const Time end =
        waits ? std::max(tx.paused_until, qp.rc_state->receiver.until) : tx.paused_until;
    if ((end > now || waits) && qp.backlog()) due = std::min(due, end);
    return due == kNever ? wheel_.cancel(qp) : wheel_.schedule(qp, due);
  }
  due = std::min({due, retransmission_deadline(qp), probe_deadline(qp), tx.loss_check});
  if (tx.paused_until > now) due = std::min(due, tx.paused_until);
  if (qp.rc && qp.rc_state->receiver.waiting) due = std::min(due, qp.rc_state->receiver.until);
  wheel_.schedule(qp, due);
}

void Timers::arm(Peer& peer) noexcept {
  Time due = std::min({peer.paths.next_probe(), peer.reverse.next_probe(), peer.trials.next_probe(),
                       peer.sizes.next_probe()});
  if (peer.held_probe != kNever && peer.ready.empty()) due = std::max(due, peer.held_probe);
  due = std::min({due, peer.pieces.next_probe(), peer.status_due, peer.next_rtt_probe});
  if (due == kNever || peer.queue_pairs == 0)
    wheel_.cancel(peer);
  else
    wheel_.schedule(peer, due);
}

/// Removes a queue pair's packets from the accounts that it shares with other queue pairs.
void Teardown::stop_sending(QueuePairState& qp) noexcept {
  ctx_.timers.cancel(qp);
  ReadyQueue::remove(qp);
  qp.review_hook.unlink();
  RequesterState& tx = qp.tx;
  if (qp.peer != nullptr) {
    Peer& peer = *qp.peer;
    for (Psn p = tx.window.unacked(); p != tx.window.next(); ++p) {
      const reliability::Packet packet = tx.window.at(p);
      if (packet.state() == reliability::PacketState::outstanding)
        peer.release(peer.paths[packet.path()].plane,
                     nominal_size(qp, p, packet, ctx_.options.timestamps));
    }
    if (tx.inflight > 0) peer.congestion.on_forget(static_cast<std::uint32_t>(tx.inflight));
    tx.inflight = 0;
    ctx_.ready.wake(peer);
  }
  tx.window.clear();
  ctx_.ready.wake_starved();
}

void Teardown::fail(QueuePairState& qp, QpErrorCause cause, WcStatus status,
                    std::optional<std::uint32_t> position) noexcept {
  if (qp.state == QpState::err) return;
  ctx_.queue_held_ack(qp);  // before the cause of this: it is about what came before
  qp.state = QpState::err;
  qp.active = false;
  qp.cause = cause;
  ++ctx_.stats.qp_errors;
  stop_sending(qp);
  ctx_.deferred.drop(qp.rx.deferred);
  // If nothing was posted, what is posted later is not at fault.
  qp.tx.failed = position == qp.tx.queue.posted() ? std::nullopt : position;
  qp.tx.failed_status = status;
  ctx_.retire(qp);
  // The receive that was too short is the oldest one.
  WcStatus received =
      qp.cause == QpErrorCause::receive_too_short ? WcStatus::loc_len_err : WcStatus::wr_flush_err;
  while (!qp.rx.receives.empty()) {
    Completion c;
    c.wr_id = qp.rx.receives.front();
    c.qpn = qp.qpn;
    c.status = std::exchange(received, WcStatus::wr_flush_err);
    c.opcode = qp.rc ? WcOpcode::recv : WcOpcode::recv_write_imm;
    ctx_.complete_receive(qp, c);
  }
  if (qp.init.srq) ctx_.completions.report_last_wqe(qp.qpn);
  if (!qp.error_reported) qp.error_reported = ctx_.completions.report_error(qp.qpn);
}

void Teardown::fail_overrun_queues() noexcept {
  const auto overrun = [this](CqId cq) { return ctx_.completions.find(cq)->overrun; };
  while (ctx_.completions.take_overrun()) {
    ctx_.objects.for_each_qp([&](QueuePairState& qp) {
      if (qp.state == QpState::err || qp.state == QpState::reset) return;
      if (overrun(qp.init.send_cq) || overrun(qp.init.receive_cq))
        fail(qp, QpErrorCause::cq_overrun, WcStatus::wr_flush_err);
    });
    if (ctx_.service) ctx_.service->fail_overrun_queues();
  }
}

Errc Teardown::flush_posted(QueuePairState& qp, const SendRequest& request) noexcept {
  SendQueue& q = qp.tx.queue;
  if (q.full()) return Errc::queue_full;
  if (!request.flags.inline_data && request.sges.size() > qp.init.capacity.send_sges)
    return Errc::too_many_sges;
  SendWqe& w = q.post();
  w.wr_id = request.wr_id;
  w.kind = static_cast<MessageKind>(request.opcode);
  w.flags.inline_data = true;  // it has no memory
  ctx_.retire(qp);
  fail_overrun_queues();
  return Errc::ok;
}

Errc Teardown::flush_posted(Qpn qpn, ReceiveQueue& receives, CqId cq,
                            const ReceiveRequest& request) noexcept {
  if (receives.full()) return Errc::queue_full;
  if (request.sges.size() > receives.sge_limit()) return Errc::too_many_sges;
  Completion c;
  c.wr_id = request.wr_id;
  c.qpn = qpn;
  c.status = WcStatus::wr_flush_err;
  c.opcode = WcOpcode::recv;
  receives.keep_slot();
  ctx_.complete(cq, c, true);
  fail_overrun_queues();
  return Errc::ok;
}

/// What was sent is unsent again.
void Teardown::leave_peer(QueuePairState& qp) noexcept {
  if (qp.peer == nullptr) return;
  stop_sending(qp);
  ctx_.deferred.drop(qp.rx.deferred);
  ctx_.control.invalidate([&qp](const ControlItem& item) { return item.qpn == qp.qpn; });
  disconnect(qp);
}

void Teardown::doubt_peer(QueuePairState& qp) noexcept {
  leave_peer(qp);
  RequesterState& tx = qp.tx;
  tx.queue.unsend();
  tx.window.start(qp.start_psn);
  tx.next_packet = 0;
  tx.fixed_range = tx.range = 0;  // nothing is sent
}

void Teardown::disconnect(QueuePairState& qp) noexcept {
  qp.tagged_hook.unlink();
  if (--qp.peer->queue_pairs == 0) {
    ctx_.timers.cancel(*qp.peer);
    qp.peer->served = false;
  }
  qp.peer = nullptr;
}

void Teardown::discard_receives(QueuePairState& qp) noexcept {
  if (qp.init.srq)  // what it has taken, and not used, serves the others
    if (SharedReceiveQueue* srq = ctx_.objects.srq(*qp.init.srq))
      while (!qp.rx.receives.empty()) {
        if (qp.init.as_verbs) srq->receives.free_slot();
        if (srq->receives.full()) break;
        srq->receives.take_front(qp.rx.receives);
      }
  while (!qp.rx.receives.empty()) ctx_.release_receive(qp.rx.receives);
  ctx_.deferred.drop(qp.rx.deferred);
}

void Teardown::detach(QueuePairState& qp) noexcept {
  stop_sending(qp);
  qp.active = false;
  const auto clear = [this](SendQueue& q) {
    for (std::uint32_t p = q.retired(); p != q.posted(); ++p) ctx_.release_memory(q.at(p));
    q.clear();
  };
  ctx_.copies.forget_requests(qp.qpn);
  clear(qp.tx.queue);
  if (qp.rc_state) clear(qp.rc_state->responses);
  qp.rc = false;
  discard_receives(qp);
  // Control packets of this connection, a NAK above all, must not be sent on the next one.
  ctx_.control.invalidate([&qp](const ControlItem& item) { return item.qpn == qp.qpn; });
  if (qp.peer != nullptr) disconnect(qp);
}

ObjectTables::ObjectTables(const EngineOptions& options, SecretRandom& secrets)
    : options_(options),
      secrets_(secrets),
      index_bits_(std::min(16u, static_cast<unsigned>(std::bit_width(options.max_qps + 2)))),
      free_qps_(options.max_qps) {
  qps_.resize(options.max_qps);
  std::vector<std::uint32_t> order(options.max_qps);
  std::iota(order.begin(), order.end(), 0u);
  secrets.shuffle(std::span(order));
  for (const std::uint32_t i : order) free_qps_.push_back(i);
  pds_.reserve(options.max_pds);
  peers_.reserve(options.max_peers);
}

Result<PdId> ObjectTables::add_pd() {
  for (std::uint32_t i = 0; i < options_.max_pds; ++i) {
    if (i == pds_.size()) pds_.push_back(0);
    if (pds_[i] == 0) {
      pds_[i] = 1;
      return PdId{i};
    }
  }
  return Errc::no_resources;
}

Result<Qpn> ObjectTables::next_number() {
  if (free_qps_.empty()) return Errc::no_resources;
  const std::uint32_t index = free_qps_.front();
  const auto draw = [&] {
    const std::uint32_t random = secrets_.bits(16) >> index_bits_ << index_bits_;
    return Qpn{(std::uint32_t{options_.slot} << 16) | random | (index + kFirstUserQpn)};
  };
  Qpn qpn = draw();
  while (value(qpn) == 0xFFFFFF && index_bits_ < 16) qpn = draw();  // multicast in IBTA's terms
  return qpn;
}

Result<Qpn> ObjectTables::add_qp(const QpInit& init, SendPool& writes,
                                 reliability::PacketPool& records) {
  Result<Qpn> qpn = next_number();
  if (!qpn) return qpn;
  qps_[place_of(*qpn)] =
      std::make_unique<QueuePairState>(*qpn, init, writes, records, options_.placing_planes != 0);
  take_number();
  ++qp_count_;
  return qpn;
}

void ObjectTables::remove_qp(Qpn qpn) noexcept {
  --qp_count_;
  qps_[place_of(qpn)].reset();
  return_number(qpn);
}

Result<SrqId> ObjectTables::add_srq(PdId pd, std::uint32_t depth, std::uint32_t sges) {
  std::uint32_t i = 0;
  while (i < srqs_.size() && srqs_[i]) ++i;
  if (i >= options_.max_srqs) return Errc::no_resources;
  auto srq = std::make_unique<SharedReceiveQueue>(SrqId{i}, pd, depth, sges);
  if (i == srqs_.size()) srqs_.emplace_back();
  srqs_[i] = std::move(srq);
  return SrqId{i};
}

Result<PeerId> ObjectTables::add_peer(const PeerSpec& spec, Random& random) {
  std::uint32_t i = 0;
  while (i < peers_.size() && peers_[i]) ++i;
  if (i >= options_.max_peers) return Errc::no_resources;
  auto peer = std::make_unique<Peer>(PeerId{i}, spec, options_, random.next());
  std::vector<std::uint64_t> tags(spec.source_tags.begin(), spec.source_tags.end());
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  for (const std::uint64_t tag : tags)
    if (tag != 0) peers_by_source_.emplace(tag, Source{peer->id, next_serial_});
  ++next_serial_;
  if (i == peers_.size()) peers_.emplace_back();
  peers_[i] = std::move(peer);
  ++peer_count_;
  return PeerId{i};
}

/// The newest of the peers at a source address that suit.
template <class F>
Peer* ObjectTables::newest_at(std::uint64_t tag, F&& suits) noexcept {
  const auto [first, last] = peers_by_source_.equal_range(tag);
  Peer* newest = nullptr;
  std::uint64_t serial = 0;
  for (auto it = first; it != last; ++it) {
    Peer* found = peer(it->second.id);
    if ((newest != nullptr && it->second.serial < serial) || !suits(*found)) continue;
    newest = found;
    serial = it->second.serial;
  }
  return newest;
}

Peer* ObjectTables::plain_peer_at(std::uint64_t tag, std::uint8_t slot) noexcept {
  const auto plain = [](const Peer& p) { return p.tagged.empty(); };
  Peer* exact = newest_at(tag, [&](const Peer& p) { return p.slot == slot && plain(p); });
  return exact != nullptr ? exact : newest_at(tag, plain);
}

void ObjectTables::remove_peer(Peer& peer) noexcept {
  std::erase_if(peers_by_source_, [&](const auto& entry) { return entry.second.id == peer.id; });
  --peer_count_;
  peers_[value(peer.id)].reset();
}

}  // namespace mrc::inline v0_1::engine
