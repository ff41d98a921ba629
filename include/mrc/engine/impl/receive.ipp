// SPDX-License-Identifier: Apache-2.0
// Engine: what comes in, sorted by destination, state and opcode (mrc-1.0 §2.13).
#pragma once

#include "mrc/engine/engine.hpp"

namespace mrc::inline v0_1::engine {

MRC_DECL void Engine::receive(Time now, std::span<const wire::RxPacket> packets) noexcept {
  now = forward(now);
  for (std::size_t i = 0; i < packets.size(); ++i) {
    if (i + 1 < packets.size()) __builtin_prefetch(packets[i + 1].bytes.data());
    receive_one(now, packets[i]);
  }
  fail_overrun_queues();
}

MRC_DECL void Engine::receive_one(Time now, const wire::RxPacket& packet) noexcept {
  if (packet.trim != wire::Trim::none) return on_trimmed(now, packet);
  if (wire::check(packet.bytes) != wire::ParseError::none || packet.plane >= kMaxPlanes) {
    ++stats_.drops.malformed;
    return;
  }
  const auto& bth = wire::view_as<wire::Bth>(packet.bytes);
  const wire::Opcode opcode = bth.opcode();
  if (opcode == wire::Opcode::endpoint_request || opcode == wire::Opcode::endpoint_response) {
    if (bth.dqp() != kEndpointQpn) {
      ++stats_.drops.malformed;
    } else if (opcode == wire::Opcode::endpoint_request) {
      on_endpoint_request(now, packet);
    } else {
      on_endpoint_response(now, packet);
    }
    return;
  }

  QueuePairState* qp = qp_of(bth.dqp());
  if (qp == nullptr) {
    ++stats_.drops.unknown_qp;
    return;
  }
  if (qp->state == QpState::reset || qp->state == QpState::init || qp->peer == nullptr) {
    ++stats_.drops.wrong_state;
    return;
  }
  if (!qp->peer->came_from_here(packet.plane, packet.source)) {
    ++stats_.drops.foreign;
    return;
  }
  const bool to_responder = wire::is_write(opcode) || opcode == wire::Opcode::probe;
  if (qp->state == QpState::err) {
    ++stats_.drops.wrong_state;
    if (to_responder) answer_in_error(now, *qp, packet, bth.psn());
    return;
  }
  if (to_responder) {
    if (opcode == wire::Opcode::probe)
      on_probe(*qp, packet);
    else
      on_write(now, *qp, packet);
    return;
  }
  ++stats_.rx_control;
  if (qp->state != QpState::rts) {
    ++stats_.drops.wrong_state;
    return;
  }
  qp->peer->answered = now;
  switch (opcode) {
    case wire::Opcode::sack:
      on_sack(now, *qp, packet);
      break;
    case wire::Opcode::nack:
      on_nack(now, *qp, packet);
      break;
    default:
      on_ack(now, *qp, packet);
      break;
  }
}

}  // namespace mrc::inline v0_1::engine
