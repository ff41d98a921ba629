// SPDX-License-Identifier: Apache-2.0
// DatagramService: datagrams out.
#pragma once

#include <algorithm>
#include <cstring>

#include "mrc/engine/datagram_service.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

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
  Destination* destination = ctx_.datagrams.destination(to);
  if (destination == nullptr) return Errc::not_found;
  if (qp.state == QpState::err && qp.init.as_verbs) return teardown_.flush_posted(qp, request, to);
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
  const Destination& to = *ctx_.datagrams.destination(w.to);
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
    DatagramState* qp = ctx_.datagrams.qp(packet.owner);
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
    ctx_.retire(qp);
  }
  teardown_.fail_overrun_queues();
}

}  // namespace mrc::inline v0_1::engine
