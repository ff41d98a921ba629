// SPDX-License-Identifier: Apache-2.0
// Queue pairs. ibv_destroy_qp() is with the events that it waits for.
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/operations.hpp"

using namespace mrc_verbs;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* verbs) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_context = verbs->qp_context;
  wanted.send_cq = verbs->send_cq;
  wanted.recv_cq = verbs->recv_cq;
  wanted.srq = verbs->srq;
  wanted.cap = verbs->cap;
  wanted.qp_type = verbs->qp_type;
  wanted.sq_sig_all = verbs->sq_sig_all;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = pd;
  ibv_qp* made = create_qp(pd->context, &wanted);
  if (made != nullptr) verbs->cap = wanted.cap;
  return made;
}

/// Null for queue pairs that were not created for it.
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  Qp& known = Qp::of(qp);
  return known.may_be_extended ? &known : nullptr;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
  return status_of("ibv_modify_qp", [&] {
    Qp::of(qp).modify(*wanted, mask);
    return 0;
  });
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int, ibv_qp_init_attr* initial) {
  return status_of("ibv_query_qp", [&] {
    Qp::of(qp).query(*attributes, *initial);
    return 0;
  });
}

/// Bytes of a message may become visible in any order, but for the last ones.
int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) {
  return 0;
}

int ibv_set_ece(ibv_qp*, ibv_ece*) {
  return decline(EOPNOTSUPP, "ibv_set_ece", "no enhanced connection establishment");
}

int ibv_query_ece(ibv_qp*, ibv_ece*) {
  return decline(EOPNOTSUPP, "ibv_query_ece", "no enhanced connection establishment");
}

int ibv_attach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) {
  return refuse(EOPNOTSUPP, "ibv_attach_mcast", "no multicast");
}

int ibv_detach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) {
  return refuse(EOPNOTSUPP, "ibv_detach_mcast", "no multicast");
}

}  // extern "C"
