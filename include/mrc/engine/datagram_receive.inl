// SPDX-License-Identifier: Apache-2.0
// DatagramService: datagrams in.
#pragma once

#include <algorithm>
#include <cstring>

#include "mrc/engine/datagram_service.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

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
  DatagramState* qp = ctx_.datagrams.qp(in.bth->dqp());
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
    ctx_.complete_receive(*qp, receives, c);
    if (srq != nullptr) ctx_.note_taken(*srq);
  };
  const std::span<const ReceiveSge> sges = receives.front_sges();
  const auto withdrawn = [this](const ReceiveSge& sge) {
    return ctx_.memory.find(sge.lkey) == nullptr;
  };
  if (srq != nullptr && std::any_of(sges.begin(), sges.end(), withdrawn)) {  // by force
    c.status = WcStatus::wr_flush_err;
    complete();
    return teardown_.fail(*qp, QpErrorCause::memory_withdrawn);
  }
  if (detail::room_in(sges) < kGrhBytes + length) {
    c.status = WcStatus::loc_len_err;
    complete();
    return teardown_.fail(*qp, QpErrorCause::receive_too_short);
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

}  // namespace mrc::inline v0_1::engine
