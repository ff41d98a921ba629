// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/shared_receive_queue.hpp"

#include "verbs_shim/errors.hpp"
#include "verbs_shim/transport/acknowledge.hpp"

using namespace mrc_verbs;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted) {
  return pointer_or_errno("ibv_create_srq", [&]() -> ibv_srq* {
    return new Srq(Context::of(pd->context), Pd::of(pd), wanted->srq_context, wanted->attr);
  });
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* wanted, int mask) {
  if ((mask & IBV_SRQ_MAX_WR) != 0)
    return refuse(EOPNOTSUPP, "ibv_modify_srq", "a queue can't change its size");
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  const mrc::Errc e = Srq::of(srq).queue()->set_limit(wanted->srq_limit);
  if (e == mrc::Errc::ok) return 0;
  return refuse(errno_of(e), "ibv_modify_srq", "the limit is larger than the queue");
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* out) {
  return status_of("ibv_query_srq", [&] {
    const mrc::SrqInfo info = Srq::of(srq).queue()->query();
    *out = {info.depth, info.sges, info.limit};
    return 0;
  });
}

int ibv_destroy_srq(ibv_srq* verbs) {
  const mrc::Uncancelled here;
  Srq& srq = Srq::of(verbs);
  if (srq.users.load() > 0) return refuse(EBUSY, "ibv_destroy_srq", "queue pairs use it");
  srq.owner().host().remove(srq.queue()->id());
  srq.owner().events().forget(verbs);
  await_acknowledged(*verbs, verbs->events_completed, srq.events_given);
  delete &srq;
  return 0;
}

}  // extern "C"
