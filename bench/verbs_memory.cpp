// SPDX-License-Identifier: Apache-2.0
// Resident memory per idle, connected RC queue pair that takes its receives from a shared receive
// queue. Uses the verbs API only; bench_verbs runs it with mrcrun. Prints JSON.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(EXIT_FAILURE);
}

/// Bytes of this process that are in memory.
std::uint64_t resident() {
  std::uint64_t size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

struct Objects {
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_srq* srq;
  ibv_gid gid;
};

ibv_qp* create(const Objects& with) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = with.cq;
  init.srq = with.srq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 128;
  init.cap.max_send_sge = 1;
  ibv_qp* qp = ibv_create_qp(with.pd, &init);
  if (qp == nullptr) fail("ibv_create_qp");
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    fail("ibv_modify_qp to INIT");
  return qp;
}

void connect(const Objects& with, ibv_qp* qp, std::uint32_t peer) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_4096;
  a.dest_qp_num = peer;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.dgid = with.gid;
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    fail("ibv_modify_qp to RTR");
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  a.max_rd_atomic = 1;
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
    fail("ibv_modify_qp to RTS");
}

}  // namespace

int main(int argc, char** argv) {
  const int pairs = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (pairs < 1) {
    std::fprintf(stderr, "usage: verbs_memory [PAIRS]\n");
    return 2;
  }
  int devices = 0;
  ibv_device** list = ibv_get_device_list(&devices);
  if (list == nullptr || devices == 0) fail("no device");
  Objects with{};
  with.context = ibv_open_device(list[0]);
  if (with.context == nullptr) fail("ibv_open_device");
  with.pd = ibv_alloc_pd(with.context);
  with.cq = ibv_create_cq(with.context, 4096, nullptr, nullptr, 0);
  ibv_srq_init_attr srq{};
  srq.attr.max_wr = 1024;
  srq.attr.max_sge = 1;
  with.srq = ibv_create_srq(with.pd, &srq);
  if (with.pd == nullptr || with.cq == nullptr || with.srq == nullptr) fail("setting up");
  if (ibv_query_gid(with.context, 1, 0, &with.gid) != 0) fail("ibv_query_gid");

  // The first pair pays for what all share: the peer, its paths, tables.
  std::vector<ibv_qp*> qps;
  const auto add = [&] {
    ibv_qp *a = create(with), *b = create(with);
    connect(with, a, b->qp_num);
    connect(with, b, a->qp_num);
    qps.insert(qps.end(), {a, b});
  };
  add();
  ::sleep(1);
  const std::uint64_t before = resident();
  for (int i = 0; i < pairs; ++i) add();
  ::sleep(1);  // what connecting still has to do is done
  const std::uint64_t after = resident();
  std::printf("{\"queue_pairs\": %d, \"bytes_per_queue_pair\": %.0f}\n", 2 * pairs,
              static_cast<double>(after - before) / (2.0 * pairs));
  for (ibv_qp* qp : qps)
    if (ibv_destroy_qp(qp) != 0) fail("ibv_destroy_qp");
  return EXIT_SUCCESS;
}
