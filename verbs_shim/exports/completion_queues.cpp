// SPDX-License-Identifier: Apache-2.0
// Completion queues and channels, and asynchronous events.
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/channel.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/acknowledge.hpp"
#include "verbs_shim/transport/operations.hpp"

using namespace mrc_verbs;

extern "C" {

// ---------------------------------------------------------------------------------- channels

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return pointer_or_errno("ibv_create_comp_channel",
                          [&]() -> ibv_comp_channel* { return new Channel(Context::of(context)); });
}

int ibv_destroy_comp_channel(ibv_comp_channel* verbs) {
  const mrc::Uncancelled here;
  if (verbs->refcnt > 0)
    return refuse(EBUSY, "ibv_destroy_comp_channel", "completion queues use it");
  delete &Channel::of(verbs);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* verbs, ibv_cq** cq, void** cq_context) {
  Cq* found = Channel::of(verbs).next();
  if (found == nullptr) return -1;
  *cq = found->base();
  *cq_context = found->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* verbs, unsigned events) {
  if (events > 0) acknowledge(*verbs, verbs->comp_events_completed, events);
}

// ------------------------------------------------------------------------------------- queues

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = entries > 0 ? static_cast<std::uint32_t>(entries) : 0;
  wanted.cq_context = cq_context;
  wanted.channel = channel;
  wanted.comp_vector = static_cast<std::uint32_t>(vector);
  wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  return reinterpret_cast<ibv_cq*>(create_cq(context, &wanted));
}

int ibv_resize_cq(ibv_cq* cq, int entries) {
  if (entries < 1) return refuse(EINVAL, "ibv_resize_cq", "a queue has at least one entry");
  if (entries <= cq->cqe) return 0;  // a larger one than asked for is allowed
  return refuse(EOPNOTSUPP, "ibv_resize_cq",
                "a queue can't grow: create it with as many entries as it will need");
}

int ibv_destroy_cq(ibv_cq* verbs) {
  const mrc::Uncancelled here;
  Cq& cq = Cq::of(verbs);
  if (cq.users.load() > 0) return refuse(EBUSY, "ibv_destroy_cq", "queue pairs use it");
  cq.withdraw();
  delete &cq;
  return 0;
}

// ----------------------------------------------------------------------- asynchronous events

int ibv_get_async_event(ibv_context* verbs, ibv_async_event* event) {
  return Context::of(verbs).next_event(*event) ? 0 : -1;
}

void ibv_ack_async_event(ibv_async_event* event) {
  if (object_of(*event) == nullptr) return;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      return acknowledge(*event->element.cq, event->element.cq->async_events_completed, 1);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return acknowledge(*event->element.srq, event->element.srq->events_completed, 1);
    default:
      return acknowledge(*event->element.qp, event->element.qp->events_completed, 1);
  }
}

// ------------------------------------------------------------------------------- queue pairs

int ibv_destroy_qp(ibv_qp* verbs) {
  const mrc::Uncancelled here;
  Qp& qp = Qp::of(verbs);
  qp.withdraw();
  delete &qp;
  return 0;
}

}  // extern "C"
