// SPDX-License-Identifier: Apache-2.0
// Posting by ibv_wr_start() and its kin: requests are put together piece by piece, and go to the
// device together with ibv_wr_complete().
#include <new>

#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/queue_pair.hpp"

namespace mrc_verbs {

namespace {

RequestList& requests(ibv_qp_ex* qp) noexcept {
  return Qp::of(qp).requests;
}

/// Runs `add` on the list; what can't be added fails the whole list when it is complete.
template <class Add>
void build(ibv_qp_ex* qp, Add&& add) noexcept {
  try {
    add(requests(qp));
  } catch (const std::exception&) {
    requests(qp).error = ENOMEM;
  }
}

ibv_send_wr& begin(ibv_qp_ex* qp, RequestList& list, ibv_wr_opcode opcode) {
  ibv_send_wr& request = list.add();
  request = {};
  request.wr_id = qp->wr_id;
  request.opcode = opcode;
  request.send_flags = qp->wr_flags;
  return request;
}

void add_plain(ibv_qp_ex* qp, ibv_wr_opcode opcode, __be32 immediate) noexcept {
  build(qp, [=](RequestList& list) { begin(qp, list, opcode).imm_data = immediate; });
}

void add_rdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
              __be32 immediate) noexcept {
  build(qp, [=](RequestList& list) {
    ibv_send_wr& request = begin(qp, list, opcode);
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = rkey;
    request.imm_data = immediate;
  });
}

void add_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
                std::uint64_t compare_add, std::uint64_t swap) noexcept {
  build(qp, [=](RequestList& list) {
    ibv_send_wr& request = begin(qp, list, opcode);
    request.wr.atomic.remote_addr = address;
    request.wr.atomic.rkey = rkey;
    request.wr.atomic.compare_add = compare_add;
    request.wr.atomic.swap = swap;
  });
}

void unsupported(ibv_qp_ex* qp) noexcept {
  requests(qp).error = EOPNOTSUPP;
}

void start(ibv_qp_ex* qp) noexcept {
  requests(qp).mutex.lock();
  requests(qp).clear();
}

int complete(ibv_qp_ex* qp) noexcept {
  RequestList& list = requests(qp);
  const std::unique_lock lock(list.mutex, std::adopt_lock);
  if (list.error != 0)
    return refuse(list.error, "ibv_wr_complete", "a request that is not supported, or no memory");
  ibv_send_wr* bad = nullptr;
  return Qp::of(qp).post_send(list.chain(), &bad);
}

void abort(ibv_qp_ex* qp) noexcept {
  requests(qp).mutex.unlock();
}

void set_requests(ibv_qp_ex& qp) noexcept {
  qp.wr_rdma_write = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address) {
    add_rdma(q, IBV_WR_RDMA_WRITE, rkey, address, 0);
  };
  qp.wr_rdma_write_imm = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address, __be32 imm) {
    add_rdma(q, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, imm);
  };
  qp.wr_rdma_read = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address) {
    add_rdma(q, IBV_WR_RDMA_READ, rkey, address, 0);
  };
  qp.wr_send = [](ibv_qp_ex* q) { add_plain(q, IBV_WR_SEND, 0); };
  qp.wr_send_imm = [](ibv_qp_ex* q, __be32 imm) { add_plain(q, IBV_WR_SEND_WITH_IMM, imm); };
  qp.wr_atomic_cmp_swp = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address,
                            std::uint64_t compare, std::uint64_t swap) {
    add_atomic(q, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
  };
  qp.wr_atomic_fetch_add = [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address,
                              std::uint64_t add) {
    add_atomic(q, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
  };
}

void set_unsupported(ibv_qp_ex& qp) noexcept {
  qp.wr_bind_mw = [](ibv_qp_ex* q, ibv_mw*, std::uint32_t, const ibv_mw_bind_info*) {
    unsupported(q);
  };
  qp.wr_local_inv = [](ibv_qp_ex* q, std::uint32_t) { unsupported(q); };
  qp.wr_send_inv = [](ibv_qp_ex* q, std::uint32_t) { unsupported(q); };
  qp.wr_send_tso = [](ibv_qp_ex* q, void*, std::uint16_t, std::uint16_t) { unsupported(q); };
  qp.wr_set_xrc_srqn = [](ibv_qp_ex* q, std::uint32_t) { unsupported(q); };
  qp.wr_atomic_write = [](ibv_qp_ex* q, std::uint32_t, std::uint64_t, const void*) {
    unsupported(q);
  };
}

}  // namespace

void set_request_operations(ibv_qp_ex& qp) noexcept {
  set_requests(qp);
  set_unsupported(qp);
  qp.wr_set_ud_addr = [](ibv_qp_ex* q, ibv_ah* ah, std::uint32_t qpn, std::uint32_t q_key) {
    // In other requests something else is in the place of the address.
    if (q->qp_base.qp_type != IBV_QPT_UD) return unsupported(q);
    requests(q).set_address({ah, qpn, q_key});
  };
  qp.wr_set_sge = [](ibv_qp_ex* q, std::uint32_t lkey, std::uint64_t address,
                     std::uint32_t length) {
    const ibv_sge sge{address, length, lkey};
    build(q, [&](RequestList& list) { list.set_sges({&sge, 1}); });
  };
  qp.wr_set_sge_list = [](ibv_qp_ex* q, std::size_t count, const ibv_sge* sges) {
    build(q, [=](RequestList& list) { list.set_sges({sges, count}); });
  };
  qp.wr_set_inline_data = [](ibv_qp_ex* q, void* address, std::size_t length) {
    const ibv_data_buf piece{address, length};
    build(q, [&](RequestList& list) { list.set_inline({&piece, 1}); });
  };
  qp.wr_set_inline_data_list = [](ibv_qp_ex* q, std::size_t count, const ibv_data_buf* pieces) {
    build(q, [=](RequestList& list) { list.set_inline({pieces, count}); });
  };
  qp.wr_start = &start;
  qp.wr_complete = &complete;
  qp.wr_abort = &abort;
}

}  // namespace mrc_verbs
