// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/resolve/datagrams.hpp"

#include <algorithm>
#include <cstring>

#include "mrc/engine/engine.hpp"
#include "mrc/resolve/packets.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::engine {

// DatagramService: datagrams out.

namespace detail {

/// Spreads the flows of a host over the paths to another one.
[[nodiscard]] constexpr std::uint32_t flow_hash(Qpn own, Qpn remote, std::uint32_t label) noexcept {
  std::uint64_t h = (std::uint64_t{value(own)} << 24 | value(remote)) * 0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 32) ^ label) * 0xD6E8FEB86659FD93u;
  return static_cast<std::uint32_t>(h >> 32);
}

}  // namespace detail

/// May this be posted? Sets its length.
Errc DatagramService::check(const DatagramState& qp, const DatagramRequest& request,
                            std::uint32_t& length) noexcept {
  if (qp.state != QpState::rts) return Errc::invalid_state;
  if (qp.queue.full()) return Errc::queue_full;
  if (value(request.remote_qpn) > 0xFFFFFF) return Errc::invalid_argument;
  const bool inlined = request.flags.inline_data;
  if (!inlined && request.sges.size() > qp.init.capacity.send_sges) return Errc::too_many_sges;
  std::uint64_t sum = 0;
  for (const Sge& sge : request.sges) {
    sum += sge.length;
    if (inlined) continue;
    const Errc e = ctx_.memory.check_local(sge, qp.init.pd, Access::none);
    if (e != Errc::ok) return e;
  }
  if (sum > (inlined ? qp.init.capacity.inline_bytes : qp.init.mtu) || sum > qp.init.mtu)
    return Errc::too_long;
  length = static_cast<std::uint32_t>(sum);
  return Errc::ok;
}

/// The ToS or traffic class that packets carry. Switches may not trim datagrams, since nobody would
/// ask for them again.
std::uint8_t DatagramService::marking(std::uint8_t traffic_class) const noexcept {
  const wire::DscpMap& map = ctx_.options.dscp;
  const std::uint8_t dscp = wire::dscp_of(traffic_class);
  const Ecn ecn = wire::ecn_of(traffic_class);
  const bool trimmable = dscp == map.trimmable || dscp == map.trimmable_retx ||
                         dscp == map.trimmed || dscp == map.trimmed_last_hop;
  return wire::make_tos(traffic_class == 0 || trimmable ? map.no_trim : dscp,
                        ecn == Ecn::ce ? Ecn::ect0 : ecn);
}

Errc DatagramService::post(DatagramState& qp, const DatagramRequest& request,
                           DestinationId to) noexcept {
  Destination* destination = tables_.destination(to);
  if (destination == nullptr) return Errc::not_found;
  if (qp.state == QpState::err && qp.init.as_verbs) return flush_posted(qp, request, to);
  std::uint32_t length = 0;
  if (const Errc e = check(qp, request, length); e != Errc::ok) return e;
  const std::uint32_t position = qp.queue.posted();
  DatagramWqe& w = qp.queue.post();
  w.wr_id = request.wr_id;
  w.length = length;
  w.q_key = (request.remote_q_key & kOwnQKey) != 0 ? qp.q_key : request.remote_q_key;
  w.remote = request.remote_qpn;
  w.to = to;
  w.path = detail::flow_hash(qp.qpn, request.remote_qpn, request.to.flow_label);
  w.traffic_class = marking(request.to.traffic_class);
  w.with_immediate = request.immediate.has_value();
  w.immediate = request.immediate.value_or(0);
  w.signaled = request.flags.signaled || qp.init.signal_all;
  w.solicited = request.flags.solicited;
  w.inlined = request.flags.inline_data;
  ++destination->uses;
  if (w.inlined) {
    std::uint8_t* at = qp.queue.inline_data(position).data();
    for (const Sge& sge : request.sges) {
      if (sge.length > 0) std::memcpy(at, sge.address, sge.length);
      at += sge.length;
    }
  } else {
    for (const Sge& sge : request.sges) {
      qp.queue.sges(position)[w.sges++] = {static_cast<const std::uint8_t*>(sge.address),
                                           sge.length, sge.lkey};
      ++ctx_.memory.find(sge.lkey)->uses;
    }
  }
  if (!qp.ready_hook.is_linked()) ready_.push_back(qp);
  return Errc::ok;
}

DatagramService::Turn DatagramService::serve(PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  while (!ready_.empty()) {
    DatagramState& qp = ready_.front();
    bool blocked = false;
    for (std::uint32_t n = ctx_.options.burst; n > 0 && qp.queue.backlog() && !blocked;) {
      const std::uint32_t position = qp.queue.sending();
      if (qp.queue.at(position).progress == DatagramWqe::Progress::posted) {
        if (burst.room() == 0 || burst.sge_room() < qp.init.capacity.send_sges + 1)
          return Turn::burst_full;
        blocked = !send(qp, position, free_planes, burst);
        if (blocked) break;
        --n;
      }
      qp.queue.skip();
    }
    ready_.pop_front();
    if (blocked) {
      blocked_.push_back(qp);
      continue;
    }
    if (qp.queue.backlog()) ready_.push_back(qp);
    return Turn::taken;
  }
  return Turn::none;
}

/// Gives the datagram at that position to a port. False: it has no room.
bool DatagramService::send(DatagramState& qp, std::uint32_t position, PlaneMask free_planes,
                           wire::TxBurst& burst) noexcept {
  DatagramWqe& w = qp.queue.at(position);
  const Destination& to = *tables_.destination(w.to);
  const auto up = std::find_if(to.ways.begin(), to.ways.end(), [this](const auto& way) {
    return (ctx_.offered_planes() & plane_bit(way.plane)) != 0;
  });
  if (up == to.ways.end()) {
    ++qp.stats.tx_lost;
    ++ctx_.stats.tx_datagrams_lost;
    w.progress = DatagramWqe::Progress::gone;
    note_given(qp, position);
    return true;
  }
  const PlaneMask planes = free_planes & ctx_.planes_for_payload(qp.init.capacity.send_sges);
  if ((planes & plane_bit(up->plane)) == 0) return false;
  emit(qp, position, to.spec.peer, to.spec.paths[up->first + w.path % up->count], burst);
  w.progress = DatagramWqe::Progress::given;
  note_given(qp, position);
  return true;
}

/// Writes the packet of the datagram at that position.
void DatagramService::emit(DatagramState& qp, std::uint32_t position, PeerId peer,
                           const path::PathSpec& path, wire::TxBurst& burst) noexcept {
  const DatagramWqe& w = qp.queue.at(position);
  wire::DatagramHeader h;
  h.pad = static_cast<std::uint8_t>((4 - w.length % 4) % 4);
  h.solicited = w.solicited;
  h.with_immediate = w.with_immediate;
  h.dqp = w.remote;
  h.psn = qp.first_psn + static_cast<std::int32_t>(position & 0xFFFFFF);
  h.q_key = w.q_key;
  h.source = qp.qpn;
  h.immediate = w.immediate;
  wire::TxPacket& packet = burst.append();
  packet.header_length =
      static_cast<std::uint8_t>(wire::build_datagram_header(packet.header.data(), h));
  packet.pad = h.pad;
  packet.dscp = wire::dscp_of(w.traffic_class);
  packet.ecn = wire::ecn_of(w.traffic_class);
  packet.peer = peer;
  packet.owner = qp.qpn;
  packet.plane = path.plane;
  packet.entropy = path.ev;
  packet.port_path = path.port_path;
  add_payload(qp, position, burst);
  if ((ctx_.options.holding_planes >> path.plane & 1) != 0 &&
      ctx_.hold_regions({qp.qpn, position, false}, burst))
    ++qp.queue.at(position).copies;
  burst.commit();
}

void DatagramService::add_payload(DatagramState& qp, std::uint32_t position,
                                  wire::TxBurst& burst) noexcept {
  const DatagramWqe& w = qp.queue.at(position);
  if (w.inlined) {
    if (w.length > 0) burst.add_sge(qp.queue.inline_data(position).data(), w.length, 0);
    return;
  }
  for (const LocalSge& sge : qp.queue.sges(position).first(w.sges))
    if (sge.length > 0) burst.add_sge(sge.address, sge.length, sge.lkey);
}

/// The entry at that position has to be settled.
void DatagramService::note_given(DatagramState& qp, std::uint32_t position) noexcept {
  qp.given_to = position + 1;  // a burst takes entries in order
  if (qp.given_hook.is_linked()) return;
  qp.given_from = position;
  given_.push_back(qp);
}

void DatagramService::on_untransmitted(std::span<const wire::TxPacket> packets) noexcept {
  for (const wire::TxPacket& packet : packets) {
    const auto& bth = wire::view_as<wire::Bth>(Bytes{packet.header.data(), packet.header_length});
    if (!wire::is_datagram(bth.opcode())) continue;
    DatagramState* qp = tables_.qp(packet.owner);
    if (qp == nullptr || qp->state != QpState::rts) continue;
    const std::uint32_t oldest = qp->queue.retired();
    const auto at = static_cast<std::uint32_t>(bth.psn() - qp->first_psn);
    const std::uint32_t position = oldest + ((at - oldest) & 0xFFFFFF);
    if (!qp->queue.contains(position)) continue;
    DatagramWqe& w = qp->queue.at(position);
    if (w.progress != DatagramWqe::Progress::given) continue;
    w.progress = DatagramWqe::Progress::posted;
    qp->queue.return_to(position);
    if (!qp->ready_hook.is_linked()) ready_.push_back(*qp);
  }
}

void DatagramService::settle() noexcept {
  while (!given_.empty()) {
    DatagramState& qp = given_.front();
    given_.pop_front();
    for (std::uint32_t p = qp.given_from; p != qp.given_to; ++p) {
      DatagramWqe& w = qp.queue.at(p);
      if (w.progress != DatagramWqe::Progress::given) continue;
      w.progress = DatagramWqe::Progress::gone;
      ++qp.stats.tx_packets;
      qp.stats.tx_bytes += w.length;
      ++ctx_.stats.tx_datagrams;
    }
    retire(qp);
  }
  teardown_.fail_overrun_queues();
}

// DatagramService: datagrams in.

namespace detail {

/// Writes consecutive bytes to the places of a scatter list.
class Scatter {
 public:
  explicit Scatter(std::span<const ReceiveSge> sges) noexcept : sges_(sges) {}
  /// The list must have room.
  void put(Bytes bytes) noexcept {
    while (!bytes.empty()) {
      const ReceiveSge& sge = sges_.front();
      const std::size_t n = std::min<std::size_t>(bytes.size(), sge.length - used_);
      if (n > 0) std::memcpy(sge.address + used_, bytes.data(), n);
      bytes = bytes.subspan(n);
      used_ += static_cast<std::uint32_t>(n);
      if (used_ < sge.length) continue;
      sges_ = sges_.subspan(1);
      used_ = 0;
    }
  }

 private:
  std::span<const ReceiveSge> sges_;
  std::uint32_t used_ = 0;  ///< bytes of the first of them
};

[[nodiscard]] inline std::uint64_t room_in(std::span<const ReceiveSge> sges) noexcept {
  std::uint64_t room = 0;
  for (const ReceiveSge& sge : sges) room += sge.length;
  return room;
}

/// P_Keys match by their low 15 bits.
[[nodiscard]] constexpr bool default_partition(std::uint16_t p_key) noexcept {
  return ((p_key ^ wire::kDefaultPKey) & 0x7FFF) == 0;
}

}  // namespace detail

Errc DatagramService::post_receive(DatagramState& qp, const ReceiveRequest& request) noexcept {
  const bool flushes = qp.state == QpState::err && qp.init.as_verbs;
  if ((qp.state == QpState::reset || qp.state == QpState::err) && !flushes)
    return Errc::invalid_state;
  if (qp.init.srq) return Errc::unsupported;  // its receives are posted there
  if (flushes) return teardown_.flush_posted(qp.qpn, qp.receives, qp.init.receive_cq, request);
  return ctx_.post_receive(qp.receives, qp.init.pd, request);
}

void DatagramService::on_datagram(const wire::RxPacket& packet) noexcept {
  const wire::DatagramView in = wire::view_datagram(packet.bytes);
  DropStats& drops = ctx_.stats.drops;
  if (!detail::default_partition(in.bth->p_key()) || in.payload.size() > wire::kMaxDatagram) {
    ++drops.malformed;
    return;
  }
  DatagramState* qp = tables_.qp(in.bth->dqp());
  if (qp == nullptr) {
    ++drops.unknown_qp;
    return;
  }
  if (qp->state != QpState::rtr && qp->state != QpState::rts) {
    ++drops.wrong_state;
    return;
  }
  if (in.deth->q_key != qp->q_key) {
    ++drops.bad_qkey;
    ++qp->stats.bad_qkey;
    return;
  }
  SharedReceiveQueue* const srq = qp->init.srq ? ctx_.objects.srq(*qp->init.srq) : nullptr;
  ReceiveQueue& receives = srq != nullptr ? srq->receives : qp->receives;
  if (receives.empty()) {
    ++drops.no_receive;
    ++qp->stats.no_receive;
    return;
  }
  const auto length = static_cast<std::uint32_t>(in.payload.size());
  Completion c;
  c.wr_id = receives.front();
  c.qpn = qp->qpn;
  c.opcode = WcOpcode::recv;
  const auto complete = [&] {
    complete_receive(*qp, receives, c);
    if (srq != nullptr) ctx_.note_taken(*srq);
  };
  const std::span<const ReceiveSge> sges = receives.sges_at(0);
  const auto withdrawn = [this](const ReceiveSge& sge) {
    return ctx_.memory.find(sge.lkey) == nullptr;
  };
  if (srq != nullptr && std::any_of(sges.begin(), sges.end(), withdrawn)) {  // by force
    c.status = WcStatus::wr_flush_err;
    complete();
    return fail(*qp, QpErrorCause::memory_withdrawn);
  }
  if (detail::room_in(sges) < kGrhBytes + length) {
    c.status = WcStatus::loc_len_err;
    complete();
    return fail(*qp, QpErrorCause::receive_too_short);
  }
  const wire::Origin nowhere;
  detail::Scatter out(sges);
  out.put(wire::make_grh(packet.origin != nullptr ? *packet.origin : nowhere, packet.udp_length));
  out.put(in.payload);
  c.byte_len = kGrhBytes + length;
  c.has_grh = packet.origin != nullptr;
  c.source_qpn = Qpn{in.deth->source_qp.value()};
  c.solicited = in.bth->solicited_event();
  c.has_immediate = in.imm != nullptr;
  if (in.imm != nullptr) c.immediate = in.imm->immediate;
  ++qp->stats.rx_packets;
  qp->stats.rx_bytes += length;
  ++ctx_.stats.rx_datagrams;
  ctx_.stats.rx_ecn += packet.ecn == Ecn::ce;
  complete();
}

// DatagramService: its queue pairs.

DatagramService::~DatagramService() {
  tables_.for_each_qp([this](DatagramState& qp) { clear(qp); });
}

bool DatagramService::complete_receive(DatagramState& qp, ReceiveQueue& receives,
                                       const Completion& c) noexcept {
  ctx_.release_receive(receives);
  if (qp.init.as_verbs) receives.keep_slot();
  return ctx_.complete(qp.init.receive_cq, c, qp.init.as_verbs);
}

void DatagramService::retire(DatagramState& qp) noexcept {
  DatagramQueue& q = qp.queue;
  while (q.retired() != q.posted()) {
    const std::uint32_t position = q.retired();
    const DatagramWqe& w = q.at(position);
    const bool sent = w.progress == DatagramWqe::Progress::gone;
    if (w.copies > 0 || (!sent && qp.state != QpState::err)) return;
    release_memory(qp, position);
    Completion c;
    c.wr_id = w.wr_id;
    c.qpn = qp.qpn;
    c.opcode = WcOpcode::send;
    c.position = static_cast<std::uint16_t>(position);
    if (!sent) c.status = WcStatus::wr_flush_err;
    const bool report = !sent || w.signaled;
    qp.stats.completed += sent;
    q.retire();
    if (report) ctx_.complete(qp.init.send_cq, c, qp.init.as_verbs);
  }
}

void DatagramService::release_memory(DatagramState& qp, std::uint32_t position) noexcept {
  const DatagramWqe& w = qp.queue.at(position);
  --tables_.destination(w.to)->uses;
  for (const LocalSge& sge : qp.queue.sges(position).first(w.sges))
    if (MemoryEntry* e = ctx_.memory.find(sge.lkey)) --e->uses;
}

void DatagramService::fail(DatagramState& qp, QpErrorCause cause) noexcept {
  if (qp.state == QpState::err) return;
  qp.state = QpState::err;
  qp.cause = cause;
  ++ctx_.stats.qp_errors;
  qp.ready_hook.unlink();
  qp.given_hook.unlink();
  retire(qp);
  while (!qp.receives.empty()) {
    Completion c;
    c.wr_id = qp.receives.front();
    c.qpn = qp.qpn;
    c.status = WcStatus::wr_flush_err;
    c.opcode = WcOpcode::recv;
    complete_receive(qp, qp.receives, c);
  }
  if (qp.init.srq) ctx_.completions.report_last_wqe(qp.qpn);
  if (!qp.error_reported) qp.error_reported = ctx_.completions.report_error(qp.qpn);
}

void DatagramService::clear(DatagramState& qp) noexcept {
  qp.ready_hook.unlink();
  qp.given_hook.unlink();
  ctx_.copies.forget_requests(qp.qpn);
  for (DatagramQueue& q = qp.queue; q.retired() != q.posted(); q.retire())
    release_memory(qp, q.retired());
  while (!qp.receives.empty()) ctx_.release_receive(qp.receives);
  if (qp.init.as_verbs) ctx_.discard_completions(qp.qpn, qp.init.send_cq, qp.init.receive_cq);
  qp.queue.free_slots();
  qp.receives.free_slots();
}

Errc DatagramService::flush_posted(DatagramState& qp, const DatagramRequest& request,
                                   DestinationId to) noexcept {
  if (qp.queue.full()) return Errc::queue_full;
  if (!request.flags.inline_data && request.sges.size() > qp.init.capacity.send_sges)
    return Errc::too_many_sges;
  DatagramWqe& w = qp.queue.post();
  w.wr_id = request.wr_id;
  w.to = to;
  ++tables_.destination(to)->uses;
  retire(qp);
  teardown_.fail_overrun_queues();
  return Errc::ok;
}

void DatagramService::on_released(const CopyTable::Request& request) noexcept {
  DatagramState* qp = tables_.qp(request.qpn);
  if (qp == nullptr) return;
  --qp->queue.at(request.position).copies;
  retire(*qp);
}

bool DatagramService::uses_pd(PdId pd) noexcept {
  bool used = false;
  tables_.for_each_qp([&](const DatagramState& qp) { used = used || qp.init.pd == pd; });
  return used;
}

void DatagramService::on_polled(const Completion& c) noexcept {
  DatagramState* qp = tables_.qp(c.qpn);
  if (qp != nullptr && qp->init.as_verbs) ctx_.free_slot(c, qp->queue, qp->receives, qp->init.srq);
}

Errc DatagramService::complete_send(const Completion& c) noexcept {
  DatagramState* qp = tables_.qp(c.qpn);
  return qp == nullptr ? Errc::not_found : teardown_.complete_send(qp->queue, qp->init, c);
}

QpErrorCause DatagramService::on_error_told(Qpn qpn) noexcept {
  DatagramState* qp = tables_.qp(qpn);
  if (qp == nullptr) return QpErrorCause::none;
  qp->error_reported = false;
  return qp->cause;
}

void DatagramService::withdraw(std::uint32_t key) noexcept {
  tables_.for_each_qp([&](DatagramState& qp) {
    bool uses = false;
    for (std::uint32_t p = qp.queue.retired(); p != qp.queue.posted(); ++p)
      for (const LocalSge& sge : qp.queue.sges(p).first(qp.queue.at(p).sges))
        uses = uses || sge.lkey == key;
    qp.receives.for_each_sge([&](const ReceiveSge& sge) { uses = uses || sge.lkey == key; });
    if (uses) fail(qp, QpErrorCause::memory_withdrawn);
  });
}

void DatagramService::fail_overrun_queues() noexcept {
  const auto overrun = [this](CqId cq) { return ctx_.completions.find(cq)->overrun; };
  tables_.for_each_qp([&](DatagramState& qp) {
    if (qp.state == QpState::err || qp.state == QpState::reset) return;
    if (overrun(qp.init.send_cq) || overrun(qp.init.receive_cq)) fail(qp, QpErrorCause::cq_overrun);
  });
}

// Engine: datagram queue pairs, their states and posting.

namespace detail {

[[nodiscard]] inline bool in_range(const DatagramInit& init) noexcept {
  return !out_of_range(init.capacity) && init.mtu >= 256 && init.mtu <= wire::kMaxDatagram &&
         std::has_single_bit(init.mtu);
}

/// Is that a step of a queue pair's life? A step to the present state changes the Q_Key only.
[[nodiscard]] constexpr bool allowed(QpState from, QpState to) noexcept {
  switch (to) {
    case QpState::reset:
      return true;
    case QpState::err:
      return from != QpState::reset;
    case QpState::init:
      return from == QpState::reset || from == QpState::init;
    case QpState::rtr:
      return from == QpState::init || from == QpState::rtr;
    case QpState::rts:
      return from == QpState::rtr || from == QpState::rts;
  }
  return false;
}

/// Made when first needed. Throws std::bad_alloc.
[[nodiscard]] inline DatagramService& datagrams(Engine& engine) {
  auto& service = engine.context().service;
  if (!service) service = std::make_unique<DatagramService>(engine.context(), engine.teardown());
  return static_cast<DatagramService&>(*service);
}

/// Null before there was one.
[[nodiscard]] inline DatagramTables* datagram_tables(const Engine& engine) noexcept {
  auto* service = static_cast<DatagramService*>(engine.context().service.get());
  return service == nullptr ? nullptr : &service->tables();
}

/// Null when there is no such datagram queue pair.
[[nodiscard]] inline DatagramState* datagram_qp(const Engine& engine, Qpn qpn) noexcept {
  DatagramTables* tables = datagram_tables(engine);
  return tables == nullptr ? nullptr : tables->qp(qpn);
}

}  // namespace detail

Result<Qpn> create_datagram_qp(Engine& engine, const DatagramInit& asked) {
  Context& ctx = engine.context();
  if (!detail::in_range(asked)) return Errc::invalid_argument;
  DatagramInit init = asked;
  SharedReceiveQueue* srq = init.srq ? ctx.objects.srq(*init.srq) : nullptr;
  if (init.srq) {
    if (srq == nullptr) return Errc::not_found;
    init.capacity.receive = init.capacity.receive_sges = 0;
  }
  const EngineOptions& o = ctx.options;
  if (o.holding_planes != 0 && init.capacity.send_sges > o.held_copies)
    return Errc::invalid_argument;  // one packet could not be held
  CompletionRing* send_cq = ctx.completions.find(init.send_cq);
  CompletionRing* receive_cq = ctx.completions.find(init.receive_cq);
  if (!ctx.objects.has_pd(init.pd) || send_cq == nullptr || receive_cq == nullptr)
    return Errc::not_found;
  const Result<Qpn> qpn = detail::datagrams(engine).tables().add_qp(init);
  if (!qpn) return qpn;
  if (srq != nullptr) ++srq->users;
  ++send_cq->users;
  ++receive_cq->users;
  if (init.as_verbs) send_cq->keeps = receive_cq->keeps = true;
  return qpn;
}

Errc destroy_datagram_qp(Engine& engine, Qpn qpn) noexcept {
  Context& ctx = engine.context();
  DatagramState* qp = detail::datagram_qp(engine, qpn);
  if (qp == nullptr) return Errc::not_found;
  detail::datagrams(engine).clear(*qp);
  ctx.completions.forget(qpn);
  --ctx.completions.find(qp->init.send_cq)->users;
  --ctx.completions.find(qp->init.receive_cq)->users;
  if (qp->init.srq) --ctx.objects.srq(*qp->init.srq)->users;
  detail::datagrams(engine).tables().remove_qp(qpn);
  return Errc::ok;
}

Errc modify_datagram_qp(Engine& engine, Qpn qpn, const DatagramChange& change) noexcept {
  Context& ctx = engine.context();
  DatagramState* qp = detail::datagram_qp(engine, qpn);
  if (qp == nullptr) return Errc::not_found;
  if (!detail::allowed(qp->state, change.state)) return Errc::invalid_state;
  const bool live = change.state != QpState::reset && change.state != QpState::err;
  const bool starts = change.state == QpState::rts && qp->state == QpState::rtr;
  if ((change.q_key && !live) || (change.send_psn && !starts)) return Errc::invalid_argument;
  if (change.state == QpState::err) {
    detail::datagrams(engine).fail(*qp, QpErrorCause::requested);
    engine.teardown().fail_overrun_queues();
    return Errc::ok;
  }
  if (change.state == QpState::reset) {
    detail::datagrams(engine).clear(*qp);
    qp->cause = QpErrorCause::none;
    qp->q_key = 0;
  }
  if (change.q_key) qp->q_key = *change.q_key;
  if (starts) {
    const Psn first = change.send_psn.value_or(Psn{static_cast<std::uint32_t>(ctx.secrets.next())});
    // `first` is that of the next entry.
    qp->first_psn = first - static_cast<std::int32_t>(qp->queue.posted() & 0xFFFFFF);
  }
  qp->state = change.state;
  return Errc::ok;
}

Result<DestinationId> add_destination(Engine& engine, const DestinationSpec& spec) {
  const auto unknown = [](const path::PathSpec& path) { return path.plane >= kMaxPlanes; };
  if (spec.paths.empty() || std::any_of(spec.paths.begin(), spec.paths.end(), unknown))
    return Errc::invalid_argument;
  return detail::datagrams(engine).tables().add_destination(spec);
}

Errc remove_destination(Engine& engine, DestinationId id) noexcept {
  DatagramTables* tables = detail::datagram_tables(engine);
  return tables == nullptr ? Errc::not_found : tables->remove_destination(id);
}

void set_destination_paths(Engine& engine, DestinationId id,
                           std::span<const path::PathSpec> paths) {
  if (DatagramTables* tables = detail::datagram_tables(engine)) tables->set_paths(id, paths);
}

void prefer_plane(Engine& engine, DestinationId id, Plane plane) noexcept {
  if (DatagramTables* tables = detail::datagram_tables(engine)) tables->prefer_plane(id, plane);
}

Errc post_datagram(Engine& engine, Qpn qpn, const DatagramRequest& request,
                   DestinationId to) noexcept {
  DatagramState* qp = detail::datagram_qp(engine, qpn);
  return qp == nullptr ? Errc::not_found : detail::datagrams(engine).post(*qp, request, to);
}

Errc post_datagram_receive(Engine& engine, Qpn qpn, const ReceiveRequest& request) noexcept {
  DatagramState* qp = detail::datagram_qp(engine, qpn);
  return qp == nullptr ? Errc::not_found : detail::datagrams(engine).post_receive(*qp, request);
}

const DatagramState* find_datagram_qp(const Engine& engine, Qpn qpn) noexcept {
  return detail::datagram_qp(engine, qpn);
}

Result<Qpn> DatagramTables::add_qp(const DatagramInit& init) {
  const Result<Qpn> qpn = numbers_.next_number();
  if (!qpn) return qpn;
  const std::uint32_t place = numbers_.place_of(qpn.value());
  if (place >= qps_.size()) qps_.resize(place + std::size_t{1});
  qps_[place] = std::make_unique<DatagramState>(qpn.value(), init);
  numbers_.take_number();
  ++count_;
  return qpn;
}

void DatagramTables::remove_qp(Qpn qpn) noexcept {
  --count_;
  qps_[numbers_.place_of(qpn)].reset();
  numbers_.return_number(qpn);
}

DestinationId DatagramTables::add_destination(const DestinationSpec& spec) {
  auto added = std::make_unique<Destination>();
  added->spec.peer = spec.peer;
  auto place = std::find(destinations_.begin(), destinations_.end(), nullptr);
  if (place == destinations_.end()) place = destinations_.insert(place, nullptr);
  *place = std::move(added);
  const DestinationId id{static_cast<std::uint32_t>(place - destinations_.begin())};
  set_paths(id, spec.paths);
  return id;
}

void DatagramTables::set_paths(DestinationId id, std::span<const path::PathSpec> paths) {
  Destination* to = destination(id);
  if (to == nullptr) return;
  std::vector<path::PathSpec> sorted;
  std::vector<Destination::Way> ways;
  PlaneMask seen = 0;
  for (const path::PathSpec& first : paths) {
    if ((seen & plane_bit(first.plane)) != 0) continue;
    seen |= plane_bit(first.plane);
    Destination::Way way{first.plane, static_cast<std::uint32_t>(sorted.size()), 0};
    for (const path::PathSpec& path : paths) {
      if (path.plane != first.plane) continue;
      sorted.push_back(path);
      ++way.count;
    }
    ways.push_back(way);
  }
  to->spec.paths = std::move(sorted);
  to->ways = std::move(ways);
}

void DatagramTables::prefer_plane(DestinationId id, Plane plane) noexcept {
  Destination* to = destination(id);
  if (to == nullptr) return;
  const auto preferred =
      std::find_if(to->ways.begin(), to->ways.end(),
                   [plane](const Destination::Way& way) { return way.plane == plane; });
  if (preferred != to->ways.end()) std::rotate(to->ways.begin(), preferred, preferred + 1);
}

Errc DatagramTables::remove_destination(DestinationId id) noexcept {
  const Destination* old = destination(id);
  if (old == nullptr) return Errc::not_found;
  if (old->uses > 0) return Errc::in_use;
  destinations_[static_cast<std::uint32_t>(id)].reset();
  return Errc::ok;
}

}  // namespace mrc::inline v0_1::engine
