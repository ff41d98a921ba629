// SPDX-License-Identifier: Apache-2.0
// Engine: inputs and outputs, distributed to the parts.
#pragma once

#include <optional>

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

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
  if (packet.check == 0) return datagrams_.on_datagram(packet);
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
    loss_.on_timer(now, qp);
  });
  teardown_.fail_overrun_queues();
}

void Engine::set_plane_up(Time now, Plane plane, bool up) noexcept {
  endpoint_.set_plane_up(ctx_.forward(now), plane, up);
  datagrams_.wake();
}

void Engine::set_plane_narrow(Time now, Plane plane, bool narrow) noexcept {
  endpoint_.set_plane_narrow(ctx_.forward(now), plane, narrow);
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
    datagrams_.wake();
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
  loss_.on_untransmitted(ctx_.forward(now), packets);
  datagrams_.on_untransmitted(packets);
  if (ctx_.options.holding_planes == 0) return;
  for (const wire::TxPacket& packet : packets) on_released({&packet.copy, 1});
}

void Engine::poll_transmit(Time now, PlaneMask free_planes, wire::TxBurst& burst) noexcept {
  scheduler_.poll_transmit(ctx_.forward(now), free_planes, burst);
}

bool Engine::poll_event(Event& event) noexcept {
  if (!ctx_.completions.poll_event(event)) return false;
  if (event.kind == Event::Kind::qp_error) {
    if (QueuePairState* qp = ctx_.objects.qp(event.qpn)) qp->error_reported = false;
    if (DatagramState* qp = ctx_.datagrams.qp(event.qpn)) qp->error_reported = false;
  }
  return true;
}

}  // namespace mrc::inline v0_1::engine
