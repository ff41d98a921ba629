// SPDX-License-Identifier: Apache-2.0
// libibverbs' functions that make, change and destroy objects.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fake_nic/rules.hpp"

using namespace mrc::test::fake_nic;

namespace {

Context& of(ibv_context* context) {
  return *static_cast<Context*>(verbs_get_ctx(context));
}

/// Counts an object, and its parent's users.
template <class T>
T* made(T* object, int& count) {
  ++count;
  return object;
}

/// Whether an object may not be destroyed, since others stand on it.
bool in_use(int users, const char* misuse) {
  if (users > 0) world().misuse(misuse);
  return users > 0;
}

int event_counter() {
  return ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
}

/// Takes one event from the front; false: there is none, and the descriptor does not wait.
bool take(int fd) {
  std::uint64_t one = 0;
  return ::read(fd, &one, sizeof one) == sizeof one;
}

void purge(Cq& cq, std::uint32_t qpn) {
  std::erase_if(cq.done, [&](const Completion& c) { return c.wc.qp_num == qpn && c.frees > 0; });
}

std::uint32_t new_qpn(Card& card) {
  if (!card.spec.reuses_numbers) return card.next_qpn++;
  std::uint32_t number = 0x11;
  while (card.qps.contains(number)) ++number;
  return number;
}

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_create_flow")) return nullptr;
  auto* flow = new Flow;
  flow->context = qp->context;
  flow->qp = qp;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(attributes);
  flow->rule.assign(bytes, bytes + attributes->size);
  static_cast<Qp*>(qp)->flows.push_back(flow);
  return made(flow, world().counts.flows);
}
int destroy_flow(ibv_flow* which) {
  const std::lock_guard lock(world().mutex);
  auto* flow = static_cast<Flow*>(which);
  std::erase(static_cast<Qp*>(flow->qp)->flows, flow);
  --world().counts.flows;
  delete flow;
  return 0;
}

}  // namespace

// NOLINTBEGIN: names and types are libibverbs'
extern "C" {

#undef ibv_query_port
#undef ibv_reg_mr

MRC_FAKE ibv_device** ibv_get_device_list(int* count) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_get_device_list")) return nullptr;
  auto** list = new ibv_device* [world().cards.size() + 1] {};
  int n = 0;
  for (const auto& card : world().cards) list[n++] = card.second.get();
  if (count != nullptr) *count = n;
  return list;
}
MRC_FAKE void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}
MRC_FAKE const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

MRC_FAKE ibv_context* ibv_open_device(ibv_device* device) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_open_device")) return nullptr;
  auto* context = new Context;
  std::memset(static_cast<verbs_context*>(context), 0, sizeof(verbs_context));
  context->sz = sizeof(verbs_context);
  context->card = static_cast<Card*>(device);
  context->context.device = device;
  context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->context.async_fd = event_counter();
  context->context.num_comp_vectors = 1;
  set_operations(*context);
  context->ibv_create_flow = &create_flow;
  context->ibv_destroy_flow = &destroy_flow;
  context->card->contexts.push_back(context);
  ++world().counts.contexts;
  return &context->context;
}

MRC_FAKE int ibv_close_device(ibv_context* c) {
  const std::lock_guard lock(world().mutex);
  Context& context = of(c);
  if (in_use(context.users, "a device is closed that has objects")) return EBUSY;
  std::erase(context.card->contexts, &context);
  ::close(c->async_fd);
  --world().counts.contexts;
  delete &context;
  return 0;
}

MRC_FAKE int ibv_query_device(ibv_context* c, ibv_device_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  const Nic& spec = of(c).card->spec;
  *attributes = {};
  attributes->phys_port_cnt = static_cast<std::uint8_t>(1 + spec.others.size());
  attributes->max_qp = spec.max_qp;
  attributes->max_cqe = spec.max_cqe;
  attributes->max_srq_wr = spec.max_srq_wr;
  attributes->max_sge = attributes->max_srq_sge = spec.max_sge;
  attributes->max_qp_wr = spec.max_qp_wr;
  attributes->max_mr_size = ~std::uint64_t{0};
  attributes->max_cq = attributes->max_mr = attributes->max_pd = attributes->max_ah = 1 << 16;
  attributes->max_srq = 1 << 10;
  return 0;
}

/// <infiniband/verbs.h> declares it with an old structure, which is the front of this one; OpenMRC
/// calls it as what it is.
MRC_FAKE int query_port(ibv_context*, std::uint8_t, ibv_port_attr*) __asm__("ibv_query_port");
int query_port(ibv_context* c, std::uint8_t port, ibv_port_attr* out) {
  const std::lock_guard lock(world().mutex);
  const Card& card = *of(c).card;
  if (port < 1 || port > 1 + card.spec.others.size()) return EINVAL;
  ibv_port_attr attributes{};
  attributes.state = is_active(card, port) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes.max_mtu = attributes.active_mtu = IBV_MTU_4096;
  attributes.gid_tbl_len = static_cast<int>(gids_of(card, port).size());
  attributes.max_msg_sz = 1u << 30;
  attributes.pkey_tbl_len = 1;
  attributes.link_layer = card.spec.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  std::memcpy(out, &attributes, offsetof(ibv_port_attr, port_cap_flags2));
  return 0;
}

MRC_FAKE int _ibv_query_gid_ex(ibv_context* c, std::uint32_t port, std::uint32_t index,
                               ibv_gid_entry* entry, std::uint32_t, std::size_t) {
  const std::lock_guard lock(world().mutex);
  const auto& gids = gids_of(*of(c).card, port);
  if (index >= gids.size()) return ENODATA;
  *entry = {};
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = gids[index].roce_v2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
  std::memcpy(entry->gid.raw, gids[index].address.data(), sizeof entry->gid.raw);
  return 0;
}

MRC_FAKE int ibv_get_async_event(ibv_context* c, ibv_async_event* event) {
  if (!take(c->async_fd)) return -1;
  const std::lock_guard lock(world().mutex);
  *event = of(c).events.front();
  of(c).events.pop_front();
  return 0;
}
MRC_FAKE void ibv_ack_async_event(ibv_async_event*) {}

MRC_FAKE ibv_pd* ibv_alloc_pd(ibv_context* c) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_alloc_pd")) return nullptr;
  auto* pd = new Pd;
  pd->context = c;
  ++of(c).users;
  return made(pd, world().counts.pds);
}
MRC_FAKE int ibv_dealloc_pd(ibv_pd* pd) {
  const std::lock_guard lock(world().mutex);
  if (in_use(static_cast<Pd*>(pd)->users, "a protection domain is deallocated that has objects"))
    return EBUSY;
  --of(pd->context).users;
  --world().counts.pds;
  delete static_cast<Pd*>(pd);
  return 0;
}

MRC_FAKE ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t,
                                  unsigned access) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_reg_mr")) return nullptr;
  Card& card = *of(pd->context).card;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    world().misuse("memory that peers may write to and the program may not");
    errno = EINVAL;
    return nullptr;
  }
  auto* mr = new Mr;
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->lkey = mr->rkey = card.next_key++;
  mr->access = static_cast<int>(access);
  card.keys[mr->lkey] = mr;
  ++static_cast<Pd*>(pd)->users;
  return made(mr, world().counts.mrs);
}
MRC_FAKE int ibv_dereg_mr(ibv_mr* mr) {
  const std::lock_guard lock(world().mutex);
  of(mr->context).card->keys.erase(mr->lkey);
  --static_cast<Pd*>(mr->pd)->users;
  --world().counts.mrs;
  delete static_cast<Mr*>(mr);
  return 0;
}

MRC_FAKE ibv_comp_channel* ibv_create_comp_channel(ibv_context* c) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_create_comp_channel")) return nullptr;
  auto* channel = new Channel;
  channel->context = c;
  channel->fd = event_counter();
  channel->refcnt = 0;
  ++of(c).users;
  return made(channel, world().counts.channels);
}
MRC_FAKE int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const std::lock_guard lock(world().mutex);
  if (in_use(channel->refcnt, "a completion channel is destroyed that has queues")) return EBUSY;
  ::close(channel->fd);
  --of(channel->context).users;
  --world().counts.channels;
  delete static_cast<Channel*>(channel);
  return 0;
}

MRC_FAKE ibv_cq* ibv_create_cq(ibv_context* c, int entries, void* user, ibv_comp_channel* channel,
                               int) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_create_cq")) return nullptr;
  if (entries < 1 || entries > of(c).card->spec.max_cqe) {
    errno = EINVAL;
    return nullptr;
  }
  auto* cq = new Cq;
  cq->context = c;
  cq->channel = channel;
  cq->cq_context = user;
  cq->cqe = entries;
  if (channel != nullptr) ++channel->refcnt;
  ++of(c).users;
  return made(cq, world().counts.cqs);
}
/// Waits for events that another thread has taken and not acknowledged yet, as libibverbs does,
/// which would wait for ever.
MRC_FAKE int ibv_destroy_cq(ibv_cq* cq) {
  std::unique_lock lock(world().mutex);
  auto* own = static_cast<Cq*>(cq);
  if (in_use(own->users, "a completion queue is destroyed that has queue pairs")) return EBUSY;
  if (cq->channel != nullptr) std::erase(static_cast<Channel*>(cq->channel)->events, cq);
  if (!world().acknowledged.wait_for(lock, std::chrono::seconds(60),
                                     [own] { return own->unacknowledged == 0; }))
    world().misuse("a completion queue is destroyed whose events are not acknowledged");
  --of(cq->context).users;
  if (cq->channel != nullptr) --cq->channel->refcnt;
  --world().counts.cqs;
  delete own;
  return 0;
}
/// An event whose queue has been destroyed is skipped.
MRC_FAKE int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user) {
  while (take(channel->fd)) {
    const std::lock_guard lock(world().mutex);
    auto& events = static_cast<Channel*>(channel)->events;
    if (events.empty()) continue;
    *cq = events.front();
    *user = (*cq)->cq_context;
    events.pop_front();
    ++static_cast<Cq*>(*cq)->unacknowledged;
    return 0;
  }
  return -1;
}
MRC_FAKE void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  const std::lock_guard lock(world().mutex);
  auto& unacknowledged = static_cast<Cq*>(cq)->unacknowledged;
  if (count > unacknowledged) world().misuse("more events are acknowledged than there were");
  unacknowledged -= std::min(count, unacknowledged);
  world().acknowledged.notify_all();
}

MRC_FAKE ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_create_srq")) return nullptr;
  const Nic& spec = of(pd->context).card->spec;
  if (attributes->attr.max_wr > static_cast<std::uint32_t>(spec.max_srq_wr) ||
      attributes->attr.max_sge > static_cast<std::uint32_t>(spec.max_sge)) {
    errno = EINVAL;
    return nullptr;
  }
  auto* srq = new Srq;
  srq->context = pd->context;
  srq->pd = pd;
  srq->room = attributes->attr.max_wr;
  srq->pieces = attributes->attr.max_sge;
  ++static_cast<Pd*>(pd)->users;
  return made(srq, world().counts.srqs);
}
MRC_FAKE int ibv_destroy_srq(ibv_srq* srq) {
  const std::lock_guard lock(world().mutex);
  if (in_use(static_cast<Srq*>(srq)->users,
             "a shared receive queue is destroyed that has queue pairs"))
    return EBUSY;
  --static_cast<Pd*>(srq->pd)->users;
  --world().counts.srqs;
  delete static_cast<Srq*>(srq);
  return 0;
}

MRC_FAKE ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_create_qp")) return nullptr;
  Card& card = *of(pd->context).card;
  errno = ENOMEM;
  if (card.qps.size() >= static_cast<std::size_t>(card.spec.max_qp)) return nullptr;
  errno = EINVAL;
  if (attributes->cap.max_send_wr > static_cast<std::uint32_t>(card.spec.max_qp_wr) ||
      attributes->cap.max_inline_data > card.spec.max_inline ||
      attributes->cap.max_send_sge > static_cast<std::uint32_t>(card.spec.max_sge) ||
      (attributes->qp_type != IBV_QPT_UD && attributes->qp_type != IBV_QPT_UC &&
       (attributes->qp_type != IBV_QPT_RAW_PACKET || card.spec.interface.empty())))
    return nullptr;
  auto* qp = new Qp;
  qp->context = pd->context;
  qp->pd = pd;
  qp->card = &card;
  qp->send_cq = attributes->send_cq;
  qp->recv_cq = attributes->recv_cq;
  qp->srq = attributes->srq;
  qp->qp_type = attributes->qp_type;
  qp->state = IBV_QPS_RESET;
  qp->cap = attributes->cap;
  qp->qp_num = new_qpn(card);
  if (qp->qp_type == IBV_QPT_RAW_PACKET) {
    qp->wire = Wire::open(card, qp->qp_num);
    if (!qp->wire) {
      delete qp;
      return nullptr;
    }
  }
  card.qps[qp->qp_num] = qp;
  ++static_cast<Pd*>(pd)->users;
  ++static_cast<Cq*>(qp->send_cq)->users;
  ++static_cast<Cq*>(qp->recv_cq)->users;
  if (qp->srq != nullptr) ++static_cast<Srq*>(qp->srq)->users;
  return made(qp, world().counts.qps);
}

MRC_FAKE int ibv_modify_qp(ibv_qp* to, ibv_qp_attr* a, int mask) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_modify_qp")) return errno;
  Qp& qp = *static_cast<Qp*>(to);
  if (!allowed(qp, *a, mask)) return EINVAL;
  if ((mask & IBV_QP_AV) != 0 && !reachable(*qp.card, qp.port, a->ah_attr)) return errno;
  const auto next = a->qp_state;
  if ((mask & IBV_QP_PORT) != 0) qp.port = a->port_num;
  if ((mask & IBV_QP_QKEY) != 0) qp.qkey = a->qkey;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) qp.access = static_cast<int>(a->qp_access_flags);
  if ((mask & IBV_QP_AV) != 0) qp.to = a->ah_attr;
  if ((mask & IBV_QP_DEST_QPN) != 0) qp.peer = a->dest_qp_num;
  qp.state = next;
  if (next == IBV_QPS_RESET) {
    qp.posted = qp.freed = 0;
    ++qp.life;
    purge(*static_cast<Cq*>(qp.send_cq), qp.qp_num);
  }
  return 0;
}

/// Its completions stay in their queues, as Soft-RoCE leaves them there.
MRC_FAKE int ibv_destroy_qp(ibv_qp* which) {
  std::shared_ptr<Wire> wire;  // its thread takes the lock
  const std::lock_guard lock(world().mutex);
  Qp& qp = *static_cast<Qp*>(which);
  wire = std::move(qp.wire);
  if (!qp.flows.empty()) world().misuse("a queue pair is destroyed that has rules for flows");
  qp.card->qps.erase(qp.qp_num);
  --static_cast<Pd*>(qp.pd)->users;
  --static_cast<Cq*>(qp.send_cq)->users;
  --static_cast<Cq*>(qp.recv_cq)->users;
  if (qp.srq != nullptr) --static_cast<Srq*>(qp.srq)->users;
  --world().counts.qps;
  delete &qp;
  return 0;
}

MRC_FAKE ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  if (world().fails("ibv_create_ah")) return nullptr;
  if (!reachable(*of(pd->context).card, attributes->port_num, *attributes)) return nullptr;
  auto* ah = new Ah;
  ah->context = pd->context;
  ah->pd = pd;
  ah->attr = *attributes;
  ++static_cast<Pd*>(pd)->users;
  return made(ah, world().counts.ahs);
}
MRC_FAKE int ibv_destroy_ah(ibv_ah* ah) {
  const std::lock_guard lock(world().mutex);
  --static_cast<Pd*>(ah->pd)->users;
  --world().counts.ahs;
  delete static_cast<Ah*>(ah);
  return 0;
}

}  // extern "C"
// NOLINTEND
