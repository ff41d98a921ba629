// SPDX-License-Identifier: Apache-2.0
// The functions of mrc.h.
#include <cstring>

#include "verbs_shim/libmrc/mrc_objects.hpp"
#include "verbs_shim/log.hpp"
#include "verbs_shim/transport/acknowledge.hpp"

namespace mrc_verbs::provided {

namespace {

constexpr std::uint32_t kMaxHints = 65536;

MrcObjects& objects() {
  return MrcObjects::all();
}

/// The object behind a pointer of the program. Throws mrc::Error (EINVAL).
template <class Object>
Object& known(Object* object, const char* name) {
  return objects().at(&given(object, name));
}

/// The context of verbs. Throws mrc::Error (EIO) if it is that of the parent of a forked child.
Context& usable(ibv_context* verbs) {
  Context& context = Context::of(verbs);
  (void)context.device().profile_limits();  // fails there
  return context;
}

/// The major part of a version. 0.x.y, and what is no version but is passed as one, is current.
constexpr std::uint32_t major_of(std::uint32_t version) {
  return version >> MRC_API_VER_MAJOR_OFFSET;
}

constexpr bool is_later(std::uint32_t version, std::uint32_t current) {
  return version != MRC_API_VER_LATEST && major_of(version) > major_of(current);
}

/// What the program leaves to the context, in an order in which nothing is used by another.
/// Events that the program was given of them will not be acknowledged any more.
void destroy_all(mrc_context& mrc) {
  const auto qps = objects().of<mrc_qp>(mrc);
  const auto cqs = objects().of<mrc_cq>(mrc);
  const auto hints = objects().of<mrc_qp_hint>(mrc);
  const auto channels = objects().of<mrc_comp_channel>(mrc);
  if (const std::size_t left = qps.size() + cqs.size() + hints.size() + channels.size(); left > 0)
    warn("mrc_destroy_context: destroys " + std::to_string(left) + " objects that were left (" +
         std::to_string(qps.size()) + " queue pairs, " + std::to_string(cqs.size()) +
         " completion queues, " + std::to_string(hints.size()) + " hints, " +
         std::to_string(channels.size()) + " channels)");
  for (mrc_qp* qp : qps) {
    mrc.owner.host().remove(qp->transport().qpn());
    (void)objects().remove(*qp);
  }
  for (mrc_cq* cq : cqs) (void)objects().remove(*cq);
  for (mrc_qp_hint* hint : hints) (void)objects().remove(*hint);
  for (mrc_comp_channel* channel : channels) (void)objects().remove(*channel);
}

constexpr int kWholeHint = MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS |
                           MRC_QP_HINT_NUM_REMOTE_RECV_PEERS | MRC_QP_HINT_VENDOR_CFG;

void check_hint(const mrc_qp_hint_attr& a, int mask) {
  if ((mask & ~kWholeHint) != 0) fail(EINVAL, "unknown bits in the mask of a hint");
  if (((mask & MRC_QP_HINT_NUM_QPS_PER_PEER) != 0 && a.num_qps_per_peer < 0) ||
      ((mask & MRC_QP_HINT_NUM_SEND_PEERS) != 0 && a.num_send_peers < 0) ||
      ((mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS) != 0 && a.num_remote_recv_peers < 0))
    fail(EINVAL, "a number in a hint is negative");
  if ((mask & MRC_QP_HINT_VENDOR_CFG) != 0 && !all_zeros(a.vendor_cfg))
    (void)decline(0, "mrc_qp_hint", "vendor_cfg is ignored: there are no rates to set");
}

/// Copies what the mask names.
void copy_hint(const mrc_qp_hint_attr& from, mrc_qp_hint_attr& to, int mask) {
  if ((mask & MRC_QP_HINT_NUM_QPS_PER_PEER) != 0) to.num_qps_per_peer = from.num_qps_per_peer;
  if ((mask & MRC_QP_HINT_NUM_SEND_PEERS) != 0) to.num_send_peers = from.num_send_peers;
  if ((mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS) != 0)
    to.num_remote_recv_peers = from.num_remote_recv_peers;
  if ((mask & MRC_QP_HINT_VENDOR_CFG) != 0)
    std::memcpy(to.vendor_cfg, from.vendor_cfg, sizeof to.vendor_cfg);
}

}  // namespace

// ---------------------------------------------------------------------------------- contexts

int mrc_query_device(ibv_context* verbs, mrc_device_attr* out, int* supported) noexcept {
  return minus_one_of("mrc_query_device", [&] {
    const bool trim_nack = usable(verbs).device().default_attributes().trim_nack;
    *out = {};
    out->mrc_protocol_version = MRC_PROTOCOL_VERSION_1;
    out->wimm_attr.max_wimm = out->wimm_attr.max_wimm_dest = kMaxWimm;
    out->mpr_attr.max_mpr = 255;
    out->mpr_attr.mpr_resolution = 1;
    out->qp_attr.max_qp_hint = kMaxHints;
    out->cap = MRC_DEVICE_CAP_DYNAMIC_MPR;
    if (trim_nack) out->cap |= MRC_DEVICE_CAP_TRIM_NACK;
    *supported = 1;
  });
}

mrc_context* mrc_create_context(ibv_context* verbs, mrc_context_attr* wanted) noexcept {
  return pointer_or_errno("mrc_create_context", [&] {
    std::uint32_t version = MRC_API_CURRENT_VERSION;
    if (wanted != nullptr) {
      if (is_later(wanted->mrc_api_version_used, MRC_API_CURRENT_VERSION) ||
          is_later(wanted->mrc_vendor_api_version_used, MRC_VENDOR_API_CURRENT_VERSION))
        fail(ENOTSUP, "the program was compiled for a later version of the API than 1.0.1");
      if (major_of(wanted->mrc_api_version_used) > 0) version = wanted->mrc_api_version_used;
    }
    return objects().add(std::make_unique<mrc_context>(usable(verbs).host_pointer(), version),
                         nullptr);
  });
}

int mrc_destroy_context(mrc_context* mrc) noexcept {
  return minus_one_of("mrc_destroy_context", [&] {
    const std::unique_ptr<mrc_context> context = objects().remove(known(mrc, "the context"));
    destroy_all(*context);
  });
}

// ------------------------------------------------------------------- channels, completion queues

int mrc_create_comp_channel(mrc_context* mrc, mrc_comp_channel** channel) noexcept {
  return error_of("mrc_create_comp_channel", [&] {
    mrc_comp_channel*& out = given(channel, "channel");
    out = objects().add(std::make_unique<mrc_comp_channel>(known(mrc, "the context")), mrc);
  });
}

int mrc_get_comp_channel_fd(mrc_comp_channel* channel, int* fd) noexcept {
  return minus_one_of("mrc_get_comp_channel_fd",
                      [&] { given(fd, "fd") = known(channel, "the channel").fd; });
}

int mrc_destroy_comp_channel(mrc_comp_channel* channel) noexcept {
  return error_of("mrc_destroy_comp_channel", [&] {
    if (known(channel, "the channel").refcnt > 0) fail(EBUSY, "completion queues use it");
    (void)objects().remove(*channel);
  });
}

mrc_cq* mrc_create_cq(mrc_context* mrc, int cqe, void* cq_context, mrc_comp_channel* channel,
                      int comp_vector) noexcept {
  return pointer_or_errno("mrc_create_cq", [&] {
    mrc_context& context = known(mrc, "the context");
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = cqe > 0 ? static_cast<std::uint32_t>(cqe) : 0;
    wanted.cq_context = cq_context;
    wanted.comp_vector = static_cast<std::uint32_t>(comp_vector);
    if (channel != nullptr) wanted.channel = &known_in(context, channel, "the channel");
    return objects().add(std::make_unique<mrc_cq>(context, wanted), mrc);
  });
}

int mrc_poll_cq(mrc_cq* cq, int num_entries, ibv_wc* wc) noexcept {
  if (unusable("mrc_poll_cq", cq) != 0) return -1;
  if (wc != nullptr && num_entries >= 0 && !cq->ev_events) return cq->poll(num_entries, wc);
  (void)refuse(EINVAL, "mrc_poll_cq", "no queue for completions, no room, or a negative number");
  return -1;
}

int mrc_req_notify_cq(mrc_cq* cq, int solicited_only) noexcept {
  if (const int no = unusable("mrc_req_notify_cq", cq); no != 0) return no;
  return error_of("mrc_req_notify_cq", [&] {
    if (!cq->ev_events) {
      if (const int error = cq->arm(solicited_only != 0); error != 0) fail(error, "arming");
    } else if (cq->channel != nullptr) {
      Channel::of(cq->channel).arm(cq->ev_events->fd(), *cq);
    }
  });
}

int mrc_get_cq_event(mrc_comp_channel* channel, mrc_cq** cq, void** cq_context) {
  if (minus_one_of("mrc_get_cq_event", [&] {
        (void)given(cq, "cq");
        (void)given(cq_context, "cq_context");
        (void)objects().begin_wait(&given(channel, "the channel"));
      }) != 0)
    return -1;
  Cq* found = channel->next();
  MrcObjects::end_wait();
  if (found == nullptr) return -1;
  *cq = static_cast<mrc_cq*>(found);
  *cq_context = found->cq_context;
  return 0;
}

void mrc_ack_cq_events(mrc_cq* cq, unsigned events) noexcept {
  if (events > 0 && unusable("mrc_ack_cq_events", cq) == 0)
    acknowledge(*cq->base(), cq->base()->comp_events_completed, events);
}

int mrc_destroy_cq(mrc_cq* cq) noexcept {
  return error_of("mrc_destroy_cq", [&] {
    if (known(cq, "the queue").users.load() > 0) fail(EBUSY, "queue pairs use it");
    cq->withdraw();
    (void)objects().remove(*cq);
  });
}

// ------------------------------------------------------------------------------------- hints

mrc_qp_hint* mrc_create_qp_hint(mrc_context* mrc, mrc_qp_hint_init_attr* wanted) noexcept {
  return pointer_or_errno("mrc_create_qp_hint", [&] {
    mrc_context& context = known(mrc, "the context");
    check_hint(given(wanted, "attr").attr, kWholeHint);
    if (objects().count<mrc_qp_hint>() >= kMaxHints) fail(ENOMEM, "there are too many hints");
    return objects().add(std::make_unique<mrc_qp_hint>(context, wanted->attr), mrc);
  });
}

int mrc_destroy_qp_hint(mrc_qp_hint* hint) noexcept {
  return minus_one_of("mrc_destroy_qp_hint", [&] {
    if (known(hint, "the hint").in_use()) fail(EBUSY, "queue pairs have it");
    (void)objects().remove(*hint);
  });
}

int mrc_query_qp_hint(mrc_qp_hint* hint, mrc_qp_hint_attr* out, int mask) noexcept {
  return minus_one_of("mrc_query_qp_hint", [&] {
    mrc_qp_hint& there = known(hint, "the hint");
    if (mask == 0) return;
    check_hint({}, mask);
    copy_hint(there.query(), given(out, "attr"), mask);
  });
}

int mrc_modify_qp_hint(mrc_qp_hint* hint, mrc_qp_hint_attr* wanted, int mask) noexcept {
  return minus_one_of("mrc_modify_qp_hint", [&] {
    mrc_qp_hint& there = known(hint, "the hint");
    if (mask == 0) return;
    check_hint(given(wanted, "attr"), mask);
    mrc_qp_hint_attr changed = there.query();
    copy_hint(*wanted, changed, mask);
    there.change(changed);
  });
}

// ------------------------------------------------------------------------------- queue pairs

mrc_qp* mrc_create_qp(mrc_context* mrc, mrc_qp_init_attr* attributes) noexcept {
  return pointer_or_errno("mrc_create_qp", [&] {
    constexpr std::uint64_t kWrites =
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    mrc_context& context = known(mrc, "the context");
    mrc_qp_init_attr& a = given(attributes, "attr");
    ibv_pd& pd = given(a.pd, "pd");
    if (pd.context == nullptr || pd.context->device != &listed_device())
      fail(EINVAL, "pd belongs to another device");
    mrc_cq& send = known_in(context, a.send_cq, "send_cq");
    mrc_cq& receive = known_in(context, a.recv_cq, "recv_cq");
    if (send.ev_events || receive.ev_events)
      fail(EINVAL, "a queue for EV events has no completions");
    if ((a.send_ops_flags & ~kWrites) != 0) fail(ENOTSUP, "operations other than writes");
    if (a.protocol_version != MRC_PROTOCOL_VERSION_0 &&
        a.protocol_version != MRC_PROTOCOL_VERSION_1)
      fail(ENOTSUP, "protocols other than version 1");
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_context = a.qp_context;
    wanted.send_cq = send.base();
    wanted.recv_cq = receive.base();
    wanted.cap = a.cap;
    wanted.qp_type = IBV_QPT_RC;
    wanted.sq_sig_all = a.sq_sig_all;
    mrc_qp* made = objects().add(std::make_unique<mrc_qp>(context, Pd::of(&pd), wanted), mrc);
    a.cap = wanted.cap;
    return made;
  });
}

int mrc_destroy_qp(mrc_qp* qp) noexcept {
  return error_of("mrc_destroy_qp", [&] {
    known(qp, "the queue pair").withdraw();
    (void)objects().remove(*qp);
  });
}

int mrc_query_qp(mrc_qp* qp, ibv_qp_attr* verbs, int, mrc_qp_attr* own, int,
                 mrc_qp_init_attr* initial) noexcept {
  return error_of("mrc_query_qp", [&] {
    mrc_qp& there = known(qp, "the queue pair");
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    there.query(attributes, made);
    if (own != nullptr) there.query_mrc(*own);
    if (verbs != nullptr) *verbs = attributes;
    if (initial == nullptr) return;
    *initial = {};
    initial->qp_context = made.qp_context;
    initial->send_cq = static_cast<mrc_cq*>(&Cq::of(made.send_cq));
    initial->recv_cq = static_cast<mrc_cq*>(&Cq::of(made.recv_cq));
    initial->cap = made.cap;
    initial->sq_sig_all = made.sq_sig_all;
    initial->pd = there.qp_base.pd;
    initial->send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    initial->protocol_version = MRC_PROTOCOL_VERSION_1;
  });
}

int mrc_modify_qp(mrc_qp* qp, ibv_qp_attr* verbs, int verbs_mask, mrc_qp_attr* own,
                  int own_mask) noexcept {
  return error_of("mrc_modify_qp", [&] {
    mrc_qp& there = known(qp, "the queue pair");
    if (verbs_mask != 0) (void)given(verbs, "ibv_attr");
    const bool ends = (verbs_mask & IBV_QP_STATE) != 0 &&
                      (verbs->qp_state == IBV_QPS_RESET || verbs->qp_state == IBV_QPS_ERR);
    if (own_mask != 0 && !ends) (void)given(own, "mrc_attr");
    static constexpr ibv_qp_attr kNoVerbs{};
    static constexpr mrc_qp_attr kNoOwn{};
    there.modify(verbs != nullptr ? *verbs : kNoVerbs, verbs_mask, own != nullptr ? *own : kNoOwn,
                 own_mask);
  });
}

int mrc_get_qpn(mrc_qp* qp, std::uint32_t* qpn) noexcept {
  return minus_one_of("mrc_get_qpn",
                      [&] { given(qpn, "qpn") = known(qp, "the queue pair").qp_base.qp_num; });
}

int mrc_post_recv(mrc_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  if (const int no = unusable("mrc_post_recv", qp); no != 0) return no;
  const int error = qp->post_receive(wr, bad);
  if (error != 0) errno = error;
  return error;
}

int mrc_post_send(mrc_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  if (const int no = unusable("mrc_post_send", qp); no != 0) return no;
  const int error = qp->post_send(wr, bad);
  if (error != 0) errno = error;
  return error;
}

// ----------------------------------------------------------------------- asynchronous events

int mrc_get_async_event(mrc_context* mrc, mrc_async_event* event) {
  if (minus_one_of("mrc_get_async_event", [&] {
        (void)given(event, "event");
        (void)objects().begin_wait(&given(mrc, "the context"));
      }) != 0)
    return -1;
  ibv_async_event found{};
  const bool there = mrc->owner.next_event(found);
  MrcObjects::end_wait();
  if (!there) return -1;
  event->event_type = found.event_type;
  if (object_of(found) == nullptr)
    event->element.port_num = found.element.port_num;
  else if (found.event_type == IBV_EVENT_CQ_ERR)
    event->element.cq = static_cast<mrc_cq*>(&Cq::of(found.element.cq));
  else
    event->element.qp = static_cast<mrc_qp*>(&Qp::of(found.element.qp));
  return 0;
}

void mrc_ack_async_event(mrc_async_event* event) noexcept {
  if (event == nullptr) return;
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      if (unusable("mrc_ack_async_event", event->element.cq) != 0) return;
      ibv_cq& cq = *event->element.cq->base();
      return acknowledge(cq, cq.async_events_completed, 1);
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: {
      if (unusable("mrc_ack_async_event", event->element.qp) != 0) return;
      ibv_qp& qp = event->element.qp->qp_base;
      return acknowledge(qp, qp.events_completed, 1);
    }
    default:
      return;  // of a port, which has nothing to count
  }
}

}  // namespace mrc_verbs::provided
