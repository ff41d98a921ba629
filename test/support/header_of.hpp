// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/resolve/packets.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::wire {

/// The inverse of build_datagram_header(), for a checked datagram.
[[nodiscard]] inline DatagramHeader header_of(const DatagramView& view) noexcept {
  DatagramHeader h;
  h.pad = view.bth->pad();
  h.solicited = view.bth->solicited_event();
  h.with_immediate = view.imm != nullptr;
  h.dqp = view.bth->dqp();
  h.psn = view.bth->psn();
  h.q_key = view.deth->q_key;
  h.source = Qpn{view.deth->source_qp.value()};
  h.immediate = view.imm != nullptr ? view.imm->immediate.value() : 0;
  return h;
}

/// The inverse of build_write_header(), for a checked data packet.
[[nodiscard]] inline WriteHeader header_of(const WriteView& view) noexcept {
  WriteHeader h;
  h.opcode = view.bth->opcode();
  h.pad = view.bth->pad();
  h.ack_request = view.bth->ack_request();
  h.rtx = view.bth->rtx();
  h.has_timestamp = view.tseth != nullptr;
  h.timestamp = view.tseth != nullptr ? view.tseth->tx_timestamp.value() : std::uint16_t{0};
  h.dqp = view.bth->dqp();
  h.psn = view.bth->psn();
  h.rqmsn = Rqmsn{view.meth->rqmsn.value()};
  h.msn = Msn{view.meth->msn.value()};
  h.va = view.reth->va;
  h.rkey = view.reth->rkey;
  h.dma_length = view.reth->dma_length;
  h.immediate = view.imm != nullptr ? view.imm->immediate.value() : 0;
  return h;
}

}  // namespace mrc::wire
