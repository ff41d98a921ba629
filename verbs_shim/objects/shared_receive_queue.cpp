// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/shared_receive_queue.hpp"

#include <algorithm>

#include "verbs_shim/errors.hpp"
#include "verbs_shim/transport/linger.hpp"
#include "verbs_shim/transport/sge_room.hpp"

namespace mrc_verbs {

Srq::Srq(Context& owner, Pd& domain, void* program_context, ibv_srq_attr& wanted)
    : ibv_srq{}, owner_(owner), pd_(domain) {
  mrc::SrqOptions options;
  options.depth = wanted.max_wr;
  options.sges = std::max(wanted.max_sge, 1u);
  options.pd = domain.domain->id();
  queue_ = Linger::with_room([&] {
    return std::make_shared<mrc::SharedReceiveQueue>(owner.device().create_srq(options));
  });
  wanted.max_sge = options.sges;
  context = &owner.context;
  srq_context = program_context;
  pd = &domain;
  handle = next_handle();
  ::pthread_mutex_init(&mutex, nullptr);
  ::pthread_cond_init(&cond, nullptr);
  ++domain.users;
  owner.host().add(*this, queue_->id());
}

Srq::~Srq() {
  --pd_.users;
  ::pthread_cond_destroy(&cond);
  ::pthread_mutex_destroy(&mutex);
}

int Srq::post(ibv_recv_wr* request, ibv_recv_wr** bad) noexcept {
  for (ibv_recv_wr* r = request; r != nullptr; r = r->next) {
    SgeRoom room;
    mrc::ReceiveRequest receive;
    receive.wr_id = r->wr_id;
    mrc::Errc e = mrc::Errc::too_many_sges;
    if (room.take(r->sg_list, r->num_sge, receive.sges)) e = queue_->post_receive(receive);
    if (e == mrc::Errc::ok) continue;
    if (bad != nullptr) *bad = r;
    return refuse_post("ibv_post_srq_recv", e, r->wr_id);
  }
  return 0;
}

}  // namespace mrc_verbs
