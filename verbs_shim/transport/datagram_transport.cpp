// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/transport/datagram_transport.hpp"

#include <endian.h>

#include "verbs_shim/address.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/shared_receive_queue.hpp"
#include "verbs_shim/transport/linger.hpp"

namespace mrc_verbs {

namespace {

/// All but the SGEs. 0; EINVAL for what datagrams do not have, and for one without address.
int to_datagram(const ibv_send_wr& from, mrc::DatagramRequest& to) noexcept {
  const bool with_immediate = from.opcode == IBV_WR_SEND_WITH_IMM;
  if ((from.opcode != IBV_WR_SEND && !with_immediate) || from.wr.ud.ah == nullptr) return EINVAL;
  to.wr_id = from.wr_id;
  to.to = Ah::of(from.wr.ud.ah).destination;
  to.remote_qpn = mrc::Qpn{from.wr.ud.remote_qpn};
  to.remote_q_key = from.wr.ud.remote_qkey;
  to.immediate.reset();
  if (with_immediate) to.immediate = be32toh(from.imm_data);  // the wire gets the program's bytes
  to.flags.signaled = (from.send_flags & IBV_SEND_SIGNALED) != 0;
  to.flags.inline_data = (from.send_flags & IBV_SEND_INLINE) != 0;
  to.flags.solicited = (from.send_flags & IBV_SEND_SOLICITED) != 0;
  return 0;
}

}  // namespace

DatagramTransport::DatagramTransport(const Parts& parts) {
  mrc::DatagramOptions options;
  options.send_cq = parts.send_cq.queue().get();
  options.receive_cq = parts.receive_cq.queue().get();
  options.capacity = parts.capacity;
  if (parts.srq != nullptr) options.srq = parts.srq->queue().get();
  options.pd = parts.pd.domain->id();
  options.signal_all = parts.signal_all;
  options.as_verbs = true;
  queue_pair_ = Linger::with_room([&] { return parts.host.device().create_datagram_qp(options); });
}

std::uint64_t DatagramTransport::completed() const {
  return queue_pair_.query().stats.completed;
}

void DatagramTransport::change(const mrc::DatagramChange& change) {
  if (const mrc::Errc e = queue_pair_.modify(change); e != mrc::Errc::ok)
    throw mrc::Error(e, std::string("moving to ") + mrc::to_string(change.state));
}

void DatagramTransport::step(mrc::QpState state) {
  mrc::DatagramChange next;
  next.state = state;
  change(next);
}

void DatagramTransport::to_rts(const ibv_qp_attr& a) {
  mrc::DatagramChange next;
  next.state = mrc::QpState::rts;
  next.send_psn = mrc::Psn{a.sq_psn};
  change(next);
}

void DatagramTransport::update(const ibv_qp_attr& a, int mask) {
  if ((mask & IBV_QP_QKEY) == 0) return;
  mrc::DatagramChange next;
  next.state = queue_pair_.state();
  next.q_key = a.qkey;
  change(next);
}

int DatagramTransport::check(const ibv_send_wr& request) const noexcept {
  if (!has_list(request.sg_list, request.num_sge)) return EINVAL;
  mrc::DatagramRequest converted;
  return to_datagram(request, converted);
}

Posted DatagramTransport::post(const ibv_send_wr& first) noexcept {
  return post_chain<mrc::DatagramRequest>(
      first, to_datagram, [this](std::span<const mrc::DatagramRequest> some, std::size_t& count) {
        return queue_pair_.post_sends(some, count);
      });
}

mrc::Errc DatagramTransport::complete(const ibv_send_wr& request, mrc::WcStatus status) noexcept {
  return queue_pair_.complete_send(request.wr_id, status);
}

std::optional<mrc::WcStatus> DatagramTransport::stops_sending(const ibv_send_wr& request,
                                                              mrc::Errc error) const noexcept {
  if (is_protection(error)) return mrc::WcStatus::loc_prot_err;
  if (error == mrc::Errc::too_long && (request.send_flags & IBV_SEND_INLINE) == 0)
    return mrc::WcStatus::loc_len_err;
  return std::nullopt;
}

}  // namespace mrc_verbs
