// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/transport/operations.hpp"

#include <algorithm>
#include <cstring>

#include "verbs_shim/address.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/attributes.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/context.hpp"
#include "verbs_shim/objects/queue_pair.hpp"

namespace mrc_verbs {

namespace {

// ---------------------------------------------------------------------------------- data path

int poll_cq(ibv_cq* cq, int room, ibv_wc* out) noexcept {
  return room > 0 ? Cq::of(cq).poll(room, out) : 0;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
  return Cq::of(cq).arm(solicited_only != 0);
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) noexcept {
  return Qp::of(qp).post_send(request, bad);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) noexcept {
  return Qp::of(qp).post_receive(request, bad);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) noexcept {
  return Srq::of(srq).post(request, bad);
}

/// Shared receive queues of other types than the basic one there are not.
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted) noexcept {
  return pointer_or_errno("ibv_create_srq_ex", [&]() -> ibv_srq* {
    if ((wanted->comp_mask & ~std::uint32_t{IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD}) != 0 ||
        ((wanted->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && wanted->srq_type != IBV_SRQT_BASIC))
      fail(EOPNOTSUPP, "neither XRC nor tag matching");
    if ((wanted->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) fail(EINVAL, "no protection domain");
    return new Srq(Context::of(context), Pd::of(wanted->pd), wanted->srq_context, wanted->attr);
  });
}

// ------------------------------------------------------------------------------ what there is not

ibv_xrcd* open_xrcd(ibv_context*, ibv_xrcd_init_attr*) noexcept {
  (void)refuse(EOPNOTSUPP, "ibv_open_xrcd", "XRC is not supported");
  return nullptr;
}
ibv_mw* alloc_mw(ibv_pd*, ibv_mw_type) noexcept {
  (void)decline(EOPNOTSUPP, "ibv_alloc_mw", "memory windows are not supported");
  return nullptr;
}
int bind_mw(ibv_qp*, ibv_mw*, ibv_mw_bind*) noexcept {
  return EOPNOTSUPP;
}
int dealloc_mw(ibv_mw*) noexcept {
  return EOPNOTSUPP;
}

// ----------------------------------------------------------------------------------- queries

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* out, std::size_t size) noexcept {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (size < sizeof out->orig_attr) return EINVAL;
  return status_of("ibv_query_device_ex", [&] {
    const ibv_device_attr_ex known = device_attributes_ex(Context::of(context).host());
    std::memset(out, 0, size);
    std::memcpy(out, &known, std::min(size, sizeof known));
    return 0;
  });
}

/// Flags of completion queues: what makes them faster for some hardware changes nothing here.
constexpr std::uint32_t kCqFlags =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
constexpr std::uint32_t kCqMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr std::uint32_t kQpMask =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
constexpr std::uint64_t kDatagramOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kSendOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// What the device lacks for such a queue, which programs then do without; or null.
const char* lacking_for(const ibv_cq_init_attr_ex& wanted) noexcept {
  if ((wanted.comp_mask & ~kCqMask) != 0) return "unknown attributes";
  if ((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (wanted.flags & ~kCqFlags) != 0)
    return "unknown flags";
  if ((wanted.wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0)
    return "completions have no time stamps, VLANs, flow tags or tags";
  return nullptr;
}

/// Which limit of a queue pair is exceeded; empty if none. Programs ask for more and more to learn
/// what they can have.
std::string exceeded_by(const ibv_qp_cap& wanted) {
  struct Limit {
    const char* name;
    std::uint32_t wanted, most;
  };
  for (const Limit& l : {Limit{"max_send_wr", wanted.max_send_wr, kMaxQueue},
                         Limit{"max_recv_wr", wanted.max_recv_wr, kMaxQueue},
                         Limit{"max_send_sge", wanted.max_send_sge, mrc::kMaxSendSges},
                         Limit{"max_recv_sge", wanted.max_recv_sge, mrc::kMaxReceiveSges},
                         Limit{"max_inline_data", wanted.max_inline_data, mrc::kMaxInlineBytes}})
    if (l.wanted > l.most)
      return std::string(l.name) + " " + std::to_string(l.wanted) + ": at most " +
             std::to_string(l.most);
  return {};
}

}  // namespace

ibv_cq_ex* create_cq(ibv_context* context, ibv_cq_init_attr_ex* wanted) noexcept {
  if (const char* lacking = lacking_for(*wanted); lacking != nullptr) {
    (void)decline(EOPNOTSUPP, "ibv_create_cq_ex", lacking);
    return nullptr;
  }
  return pointer_or_errno("ibv_create_cq", [&] { return new Cq(Context::of(context), *wanted); });
}

ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* wanted) noexcept {
  if (const std::string limit = exceeded_by(wanted->cap); !limit.empty()) {
    (void)decline(EINVAL, "ibv_create_qp", limit);
    return nullptr;
  }
  return pointer_or_errno("ibv_create_qp", [&]() -> ibv_qp* {
    if ((wanted->comp_mask & ~kQpMask) != 0) fail(EOPNOTSUPP, "unknown attributes");
    if ((wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted->pd == nullptr)
      fail(EINVAL, "a queue pair needs a protection domain");
    if ((wanted->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted->create_flags != 0)
      fail(EOPNOTSUPP, "flags of datagram queue pairs");
    if ((wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
        (wanted->send_ops_flags & ~(wanted->qp_type == IBV_QPT_UD ? kDatagramOps : kSendOps)) != 0)
      fail(EOPNOTSUPP, "an operation that this type of queue pairs has not");
    Qp* made = new Qp(Context::of(context), Pd::of(wanted->pd), *wanted);
    if ((wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) made->may_be_extended = true;
    return &made->qp_base;
  });
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out,
               std::size_t size) noexcept {
  const Host& host = Context::of(context).host();
  return status_of("ibv_query_port", [&] {
    if (!has_port(host.device(), port)) fail(EINVAL, no_port(host.device(), port));
    const ibv_port_attr known = port_attributes(host, port);
    std::memset(out, 0, size);
    std::memcpy(out, &known, std::min(size, sizeof known));
    return 0;
  });
}

// ------------------------------------------------------------------------------------- domains

namespace {

/// A thread domain tells which objects one thread alone uses. Here a call takes its locks once and
/// is not slower for them, so they are taken all the same.
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted) noexcept {
  return pointer_or_errno("ibv_alloc_td", [&]() -> ibv_td* {
    if (wanted->comp_mask != 0) fail(EOPNOTSUPP, "unknown attributes");
    auto* td = new Td;
    td->context = context;
    return td;
  });
}

int dealloc_td(ibv_td* verbs) noexcept {
  auto* td = static_cast<Td*>(verbs);
  if (td->users.load() > 0) return refuse(EBUSY, "ibv_dealloc_td", "parent domains use it");
  delete td;
  return 0;
}

/// Stands for its protection domain. The program's allocators are not called: objects of this
/// device are not in memory that it shares with hardware.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted) noexcept {
  constexpr std::uint32_t kUnprotected = 1 << 2;  // for memory that hardware reads; of 64
  constexpr std::uint32_t kMask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                  IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kUnprotected;
  return pointer_or_errno("ibv_alloc_parent_domain", [&]() -> ibv_pd* {
    if ((wanted->comp_mask & ~kMask) != 0) fail(EOPNOTSUPP, "unknown attributes");
    if (wanted->pd == nullptr) fail(EINVAL, "a parent domain needs a protection domain");
    auto* made = new Pd;
    made->context = context;
    made->handle = next_handle();
    made->domain = Pd::of(wanted->pd).domain;
    made->parent = &Pd::of(wanted->pd);
    made->td = static_cast<Td*>(wanted->td);
    ++made->parent->users;
    if (made->td != nullptr) ++made->td->users;
    return made;
  });
}

}  // namespace

void set_operations(verbs_context& v) noexcept {
  v.open_xrcd = &open_xrcd;
  v.alloc_td = &alloc_td;
  v.dealloc_td = &dealloc_td;
  v.alloc_parent_domain = &alloc_parent_domain;
  v.query_port = &query_port;
  v.query_device_ex = &query_device_ex;
  v.create_cq_ex = &create_cq;
  v.create_qp_ex = &create_qp;
  v.create_srq_ex = &create_srq_ex;
  ibv_context_ops& ops = v.context.ops;
  ops.poll_cq = &poll_cq;
  ops.req_notify_cq = &req_notify_cq;
  ops.post_send = &post_send;
  ops.post_recv = &post_recv;
  ops.post_srq_recv = &post_srq_recv;
  ops.alloc_mw = &alloc_mw;
  ops.bind_mw = &bind_mw;
  ops.dealloc_mw = &dealloc_mw;
}

}  // namespace mrc_verbs
