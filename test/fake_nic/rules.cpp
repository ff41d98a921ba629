// SPDX-License-Identifier: Apache-2.0
#include "fake_nic/rules.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mrc::test::fake_nic {
namespace {

struct Step {
  ibv_qp_type type;
  ibv_qp_state from, to;
  int needed, optional;
};

/// As the kernel's qp_state_table.
constexpr Step kSteps[] = {
    {IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPT_RAW_PACKET, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PORT, 0},
    {IBV_QPT_RAW_PACKET, IBV_QPS_INIT, IBV_QPS_RTR, 0, 0},
    {IBV_QPT_RAW_PACKET, IBV_QPS_RTR, IBV_QPS_RTS, 0, 0},
    {IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
};

}  // namespace

bool allowed(const Qp& qp, const ibv_qp_attr& a, int mask) {
  if ((mask & IBV_QP_STATE) == 0) {
    world().misuse("a queue pair is modified without a state");
    return false;
  }
  const int others = mask & ~IBV_QP_STATE;
  if (a.qp_state == IBV_QPS_RESET || a.qp_state == IBV_QPS_ERR) return true;
  for (const Step& step : kSteps) {
    if (step.type != qp.qp_type || step.from != qp.state || step.to != a.qp_state) continue;
    if ((others & step.needed) == step.needed && (others & ~(step.needed | step.optional)) == 0)
      return true;
    world().misuse("a queue pair's state is changed with the wrong attributes");
    return false;
  }
  world().misuse("a change of a queue pair's state that is not allowed");
  return false;
}

bool reachable(const Card& card, unsigned port, const ibv_ah_attr& to) {
  if (to.is_global == 0 || to.port_num != port || to.grh.sgid_index >= gids_of(card, port).size()) {
    errno = EINVAL;
    return false;
  }
  for (const auto& [name, other] : world().cards)
    for (unsigned i = 1; i <= 1 + other->spec.others.size(); ++i)
      for (const Gid& gid : gids_of(*other, i))
        if (std::memcmp(gid.address.data(), to.grh.dgid.raw, gid.address.size()) == 0) return true;
  errno = ETIMEDOUT;
  return false;
}

bool registered(const Card& card, const ibv_pd* pd, std::span<const ibv_sge> sges, int access) {
  return std::all_of(sges.begin(), sges.end(), [&](const ibv_sge& sge) {
    const auto key = card.keys.find(sge.lkey);
    if (key == card.keys.end()) return false;
    const Mr& mr = *key->second;
    const auto begin = reinterpret_cast<std::uintptr_t>(mr.addr);
    return mr.pd == pd && (mr.access & access) == access && sge.addr >= begin &&
           sge.addr - begin <= mr.length && mr.length - (sge.addr - begin) >= sge.length;
  });
}

}  // namespace mrc::test::fake_nic
