// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/transport/connected_transport.hpp"

#include <endian.h>

#include <algorithm>

#include "mrc/engine/send_window.hpp"
#include "verbs_shim/address.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/shared_receive_queue.hpp"
#include "verbs_shim/transport/linger.hpp"

namespace mrc_verbs {

namespace {

/// The device's name of an operation, or nothing.
std::optional<mrc::SendOpcode> opcode_of(ibv_wr_opcode opcode) noexcept {
  using Opcode = mrc::SendOpcode;
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return Opcode::write;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return Opcode::write_imm;
    case IBV_WR_SEND:
      return Opcode::send;
    case IBV_WR_SEND_WITH_IMM:
      return Opcode::send_imm;
    case IBV_WR_RDMA_READ:
      return Opcode::read;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return Opcode::compare_swap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return Opcode::fetch_add;
    default:
      return std::nullopt;
  }
}

/// All but the SGEs. 0; EOPNOTSUPP for what there is not, and EINVAL for what others have.
int to_send_request(Operations offered, const ibv_send_wr& from, mrc::SendRequest& to) noexcept {
  const std::optional<mrc::SendOpcode> opcode = opcode_of(from.opcode);
  if (offered == Operations::writes && opcode != mrc::SendOpcode::write &&
      opcode != mrc::SendOpcode::write_imm)
    return EINVAL;
  if (!opcode) return EOPNOTSUPP;
  if (offered == Operations::without_response && mrc::has_response(*opcode)) return EINVAL;
  to.opcode = *opcode;
  to.wr_id = from.wr_id;
  if (to.opcode == mrc::SendOpcode::compare_swap || to.opcode == mrc::SendOpcode::fetch_add) {
    to.remote = {from.wr.atomic.remote_addr, from.wr.atomic.rkey};
    to.compare_add = from.wr.atomic.compare_add;
    to.swap = from.wr.atomic.swap;
  } else {
    to.remote = {from.wr.rdma.remote_addr, from.wr.rdma.rkey};
  }
  to.immediate = be32toh(from.imm_data);  // the wire gets the program's bytes
  to.flags.signaled = (from.send_flags & IBV_SEND_SIGNALED) != 0;
  to.flags.inline_data = (from.send_flags & IBV_SEND_INLINE) != 0;
  to.flags.solicited = (from.send_flags & IBV_SEND_SOLICITED) != 0;
  to.flags.fence = (from.send_flags & IBV_SEND_FENCE) != 0;
  return 0;
}

}  // namespace

ConnectedTransport::ConnectedTransport(Operations operations, const Parts& parts)
    : operations_(operations),
      largest_mtu_(parts.host.active_mtu()),
      min_timeout_(parts.host.settings().min_timeout) {
  mrc::QpOptions options;
  options.send_cq = parts.send_cq.queue().get();
  options.receive_cq = parts.receive_cq.queue().get();
  options.capacity = parts.capacity;
  options.capacity.atomics = operations == Operations::all;
  if (parts.srq != nullptr) options.srq = parts.srq->queue().get();
  options.pd = parts.pd.domain->id();
  options.signal_all = parts.signal_all;
  options.as_verbs = true;
  queue_pair_ = Linger::with_room(
      [&] { return std::make_unique<mrc::QueuePair>(parts.host.device().create_qp(options)); });
}

std::uint64_t ConnectedTransport::completed() const {
  return queue_pair_->stats().writes_completed;
}

void ConnectedTransport::to_init() {
  mrc::QpChange change;
  change.state = mrc::QpState::init;
  queue_pair_->modify(change);
}

mrc::QpChange ConnectedTransport::towards(const ibv_qp_attr& a) const {
  mrc::QpChange change;
  change.state = mrc::QpState::rtr;
  change.destination = mrc::Destination{address_of(a.ah_attr.grh.dgid), mrc::Qpn{a.dest_qp_num}};
  change.receive_psn = mrc::Psn{a.rq_psn};
  // The largest of verbs stands for the device's own, which may be larger; the devices agree on it.
  // MRC has none if the program gave none.
  if (a.path_mtu != largest_mtu_ && a.path_mtu != 0) change.mtu = bytes_of(a.path_mtu);
  return change;
}

void ConnectedTransport::to_rtr(const ibv_qp_attr& a) {
  mrc::QpChange change = towards(a);
  if (operations_ == Operations::all) {
    change.rtr.max_rd_atomic_dest = a.max_dest_rd_atomic;
    change.rtr.min_rnr_timer = a.min_rnr_timer;
  }
  queue_pair_->modify(change);
}

namespace {

/// When a queue pair gives up a silent peer, with so many retries that double.
mrc::Duration give_up_time(const mrc::RtsAttributes& rts, unsigned retries,
                           unsigned longest = mrc::reliability::kMaxTimeoutExponent) {
  return mrc::reliability::give_up_time({*rts.timeout, *rts.retry_linear, retries, longest},
                                        mrc::Duration(0));
}

/// As many retries that double as end by then.
void lengthen_within(mrc::RtsAttributes& rts, mrc::Duration most) {
  while (give_up_time(rts, *rts.retry_exponential + 1u) <= most) ++*rts.retry_exponential;
}

/// As late as this, or later. Timeouts that double end at a second if that will do, so that a peer
/// that returns is noticed soon.
void lengthen(mrc::RtsAttributes& rts, mrc::Duration at_least) {
  using namespace mrc::reliability;
  for (unsigned longest = 20; longest <= kMaxTimeoutExponent; ++longest) {
    for (unsigned retries = *rts.retry_exponential; retries < kRetryForever; ++retries) {
      if (give_up_time(rts, retries, longest) < at_least) continue;
      rts.retry_exponential = static_cast<std::uint8_t>(retries);
      rts.max_timeout = static_cast<std::uint8_t>(longest);
      return;
    }
  }
}

}  // namespace

/// Verbs counts time in 4.096 us x 2^n, the device in 1.024 us x 2^n. 0 is for ever. The
/// specification allows timeouts to be noticed up to four times as late (IBTA 1.4, 9.7.6.1.3). Of
/// that, short ones get what a peer may need that shares its processors and does not run.
void ConnectedTransport::to_rts(const ibv_qp_attr& a) {
  using namespace mrc::reliability;
  constexpr int kMostLateness = 4;
  constexpr mrc::Duration kStoppedPeer = std::chrono::seconds(2);
  mrc::QpChange change;
  change.state = mrc::QpState::rts;
  change.rts.send_psn = mrc::Psn{a.sq_psn};
  if (operations_ == Operations::all) {
    change.rts.retry_linear = a.retry_cnt;
    change.rts.retry_exponential = static_cast<std::uint8_t>(a.timeout == 0 ? kRetryForever : 0u);
    change.rts.max_rd_atomic = a.max_rd_atomic;
    change.rts.rnr_retry = a.rnr_retry;
    if (a.timeout != 0) {
      change.rts.timeout = static_cast<std::uint8_t>(std::min(a.timeout + 2u, kMaxTimeoutExponent));
      const mrc::Duration own = give_up_time(change.rts, 0);
      lengthen_within(change.rts, std::min(kMostLateness * own, std::max(own, kStoppedPeer)));
      if (min_timeout_ > mrc::Duration(0)) lengthen(change.rts, min_timeout_);
    }
  }
  queue_pair_->modify(change);
}

void ConnectedTransport::to_error() {
  if (const mrc::Errc e = queue_pair_->to_error(); e != mrc::Errc::ok)
    throw mrc::Error(e, "moving to ERR");
}

void ConnectedTransport::to_reset() {
  if (const mrc::Errc e = queue_pair_->reset(); e != mrc::Errc::ok)
    throw mrc::Error(e, "moving to RESET");
}

void ConnectedTransport::update(const ibv_qp_attr& a, int mask) {
  if ((mask & IBV_QP_ACCESS_FLAGS) == 0) return;
  using mrc::Access;
  Access rights = Access::none;
  const auto flags = static_cast<unsigned>(a.qp_access_flags);
  if ((flags & IBV_ACCESS_REMOTE_WRITE) != 0) rights = rights | Access::remote_write;
  if ((flags & IBV_ACCESS_REMOTE_READ) != 0) rights = rights | Access::remote_read;
  if ((flags & IBV_ACCESS_REMOTE_ATOMIC) != 0) rights = rights | Access::remote_atomic;
  if (const mrc::Errc e = queue_pair_->set_peer_rights(rights); e != mrc::Errc::ok)
    throw mrc::Error(e, "setting the access flags");
}

int ConnectedTransport::check(const ibv_send_wr& request) const noexcept {
  if (!has_list(request.sg_list, request.num_sge)) return EINVAL;
  mrc::SendRequest converted;
  return to_send_request(operations_, request, converted);
}

Posted ConnectedTransport::post(const ibv_send_wr& first) noexcept {
  return post_chain<mrc::SendRequest>(
      first,
      [this](const ibv_send_wr& from, mrc::SendRequest& to) {
        return to_send_request(operations_, from, to);
      },
      [this](std::span<const mrc::SendRequest> some, std::size_t& count) {
        return queue_pair_->post_sends(some, count);
      });
}

mrc::Errc ConnectedTransport::complete(const ibv_send_wr& request, mrc::WcStatus status) noexcept {
  const mrc::SendOpcode opcode = opcode_of(request.opcode).value_or(mrc::SendOpcode::write);
  return queue_pair_->complete_send(request.wr_id, opcode, status);
}

std::optional<mrc::WcStatus> ConnectedTransport::stops_sending(const ibv_send_wr&,
                                                               mrc::Errc error) const noexcept {
  // A connection of RC would be lost.
  if (operations_ == Operations::without_response && is_protection(error))
    return mrc::WcStatus::loc_prot_err;
  return std::nullopt;
}

}  // namespace mrc_verbs
