// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/queue_pair.hpp"

#include <algorithm>

#include "verbs_shim/errors.hpp"
#include "verbs_shim/transport/acknowledge.hpp"
#include "verbs_shim/transport/linger.hpp"

namespace mrc_verbs {

namespace {

/// Network cards grant more inline data than is asked for, and some programs use what they got:
/// NCCL asks for 64 bytes, and posts the announcements of up to eight receives, 64 bytes each, as
/// one.
constexpr std::uint32_t kUsualInline = 512;

[[nodiscard]] std::uint32_t inline_bytes(const ibv_qp_cap& wanted) noexcept {
  return wanted.max_inline_data == 0 ? 0 : std::max(wanted.max_inline_data, kUsualInline);
}

}  // namespace

Parts Qp::parts_of(Context& owner, const Pd& pd, const ibv_qp_init_attr_ex& wanted) {
  const ibv_qp_cap& cap = wanted.cap;
  if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr)
    fail(EINVAL, "a queue pair needs completion queues for both of its queues");
  Parts parts{owner.host(), pd, Cq::of(wanted.send_cq), Cq::of(wanted.recv_cq)};
  if (wanted.srq != nullptr) parts.srq = &Srq::of(wanted.srq);
  parts.capacity.send = std::max(cap.max_send_wr, 1u);
  parts.capacity.receive = wanted.srq == nullptr ? cap.max_recv_wr : 0;
  parts.capacity.send_sges = cap.max_send_sge;
  parts.capacity.receive_sges = cap.max_recv_sge;
  parts.capacity.inline_bytes = inline_bytes(cap);
  parts.signal_all = wanted.sq_sig_all != 0;
  return parts;
}

Qp::Qp(Context& owner, Pd& pd, ibv_qp_init_attr_ex& wanted, std::unique_ptr<Transport> transport)
    : ibv_qp_ex{},
      owner_(owner),
      pd_(pd),
      transport_(std::move(transport)),
      send_cq_(Cq::of(wanted.send_cq)),
      receive_cq_(Cq::of(wanted.recv_cq)),
      srq_(wanted.srq != nullptr ? &Srq::of(wanted.srq) : nullptr),
      signal_all_(wanted.sq_sig_all != 0) {
  wanted.cap.max_send_wr = std::max(wanted.cap.max_send_wr, 1u);
  if (srq_ != nullptr) wanted.cap.max_recv_wr = 0;
  wanted.cap.max_inline_data = inline_bytes(wanted.cap);
  capacity_ = wanted.cap;
  qp_base.context = &owner.context;
  qp_base.qp_context = wanted.qp_context;
  qp_base.pd = &pd;
  qp_base.send_cq = wanted.send_cq;
  qp_base.recv_cq = wanted.recv_cq;
  qp_base.srq = wanted.srq;
  qp_base.handle = next_handle();
  qp_base.qp_num = mrc::value(transport_->qpn());
  qp_base.state = IBV_QPS_RESET;
  qp_base.qp_type = wanted.qp_type;
  ::pthread_mutex_init(&qp_base.mutex, nullptr);
  ::pthread_cond_init(&qp_base.cond, nullptr);
  set_request_operations(*this);
  ++pd.users;
  ++send_cq_.users;
  ++receive_cq_.users;
  if (srq_ != nullptr) ++srq_->users;
  owner.host().add(*this, transport_->qpn());
}

Qp::~Qp() {
  // Only a queue pair that would touch no memory of the program any more may linger.
  const bool idle = !transport_->failed() && all_sent() && held_.empty();
  if (std::unique_ptr<mrc::QueuePair> qp = transport_->release())
    Linger::retire({owner_.host_pointer(), pd_.domain, send_cq_.queue(), receive_cq_.queue(),
                    srq_ != nullptr ? srq_->queue() : nullptr, std::move(qp)},
                   idle);
  transport_.reset();
  forget_draining();
  --pd_.users;
  --send_cq_.users;
  --receive_cq_.users;
  if (srq_ != nullptr) --srq_->users;
  ::pthread_cond_destroy(&qp_base.cond);
  ::pthread_mutex_destroy(&qp_base.mutex);
}

void Qp::withdraw() {
  owner_.host().remove(transport_->qpn());
  owner_.events().forget(&qp_base);
  await_acknowledged(qp_base, qp_base.events_completed, events_given);
}

}  // namespace mrc_verbs
