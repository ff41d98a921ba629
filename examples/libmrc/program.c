// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

const char* program_name = "program";

void open_program(struct program* program, const char* device) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  if (list == NULL) DIE_ERRNO("ibv_get_device_list");
  struct ibv_device* found = NULL;
  for (int i = 0; i < count && found == NULL; ++i)
    if (device == NULL || strcmp(ibv_get_device_name(list[i]), device) == 0) found = list[i];
  if (found == NULL) DIE("no device %s; run it with mrcrun", device == NULL ? "at all" : device);
  program->context = ibv_open_device(found);
  ibv_free_device_list(list);
  if (program->context == NULL) DIE_ERRNO("ibv_open_device");

  struct mrc_device_attr attr;
  int supported = 0;
  CHECK(mrc_query_device(program->context, &attr, &supported));
  if (!supported) DIE("the device has no MRC; run it with mrcrun");
  struct mrc_context_attr version = {MRC_API_VER_USED, MRC_VENDOR_API_VER_USED};
  program->mrc = mrc_create_context(program->context, &version);
  if (program->mrc == NULL) DIE_ERRNO("mrc_create_context");
  program->pd = ibv_alloc_pd(program->context);
  if (program->pd == NULL) DIE_ERRNO("ibv_alloc_pd");
  CHECK(ibv_query_gid(program->context, 1, 0, &program->gid));
}

void close_program(struct program* program) {
  CHECK(mrc_destroy_context(program->mrc));
  CHECK(ibv_dealloc_pd(program->pd));
  CHECK(ibv_close_device(program->context));
}

struct mrc_qp* make_qp(struct program* program, struct mrc_cq* cq, uint32_t sends,
                       uint32_t receives) {
  struct mrc_qp_init_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.send_cq = attr.recv_cq = cq;
  attr.pd = program->pd;
  attr.cap.max_send_wr = sends;
  attr.cap.max_recv_wr = receives;
  attr.cap.max_send_sge = 1;
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  struct mrc_qp* qp = mrc_create_qp(program->mrc, &attr);
  if (qp == NULL) DIE_ERRNO("mrc_create_qp");
  return qp;
}

struct address address_of(struct program* program, struct mrc_qp* qp, struct ibv_mr* mr) {
  struct address address;
  memset(&address, 0, sizeof address);
  address.gid = program->gid;
  CHECK(mrc_get_qpn(qp, &address.qpn));
  if (mr != NULL) {
    address.memory = (uintptr_t)mr->addr;
    address.rkey = mr->rkey;
  }
  return address;
}

void connect_qp(struct mrc_qp* qp, const struct address* peer, enum ibv_mtu mtu,
                struct mrc_qp_attr* init_attr, int init_mask) {
  struct ibv_qp_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  CHECK(mrc_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                      init_attr, init_mask));
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mtu;
  attr.dest_qp_num = peer->qpn;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = peer->gid;
  attr.ah_attr.port_num = 1;
  CHECK(mrc_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU,
                      NULL, 0));
  /* Counts that verbs would not allow: MRC has its own (MRC_QP_RETRY_CNT), these are ignored. */
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 14;
  attr.rnr_retry = 14;
  CHECK(mrc_modify_qp(
      qp, &attr,
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY, NULL,
      0));
}

int meet(const char* server, int port) {
  struct addrinfo hints, *found = NULL;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = server == NULL ? AI_PASSIVE : 0;
  char service[8];
  (void)snprintf(service, sizeof service, "%d", port);
  const int error = getaddrinfo(server, service, &hints, &found);
  if (error != 0) DIE("%s: %s", server == NULL ? "port" : server, gai_strerror(error));
  const int yes = 1;
  int connection = -1;
  if (server == NULL) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0) DIE_ERRNO("socket");
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    CHECK(bind(listener, found->ai_addr, found->ai_addrlen));
    CHECK(listen(listener, 1));
    connection = accept(listener, NULL, NULL);
    if (connection < 0) DIE_ERRNO("accept");
    (void)close(listener);
  } else {
    /* The other side may still be starting. */
    for (const double until = now() + 10; connection < 0;) {
      const int attempt = socket(AF_INET, SOCK_STREAM, 0);
      if (attempt < 0) DIE_ERRNO("socket");
      if (connect(attempt, found->ai_addr, found->ai_addrlen) == 0) {
        connection = attempt;
      } else {
        if (now() > until) DIE_ERRNO(server);
        (void)close(attempt);
        (void)usleep(50000);
      }
    }
  }
  freeaddrinfo(found);
  return connection;
}

void exchange(int connection, const void* mine, void* theirs, size_t bytes) {
  for (size_t sent = 0; sent < bytes;) {
    const ssize_t n = send(connection, (const char*)mine + sent, bytes - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) DIE_ERRNO("the connection to the other side");
    sent += (size_t)n;
  }
  for (size_t received = 0; received < bytes;) {
    const ssize_t n = recv(connection, (char*)theirs + received, bytes - received, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) DIE("the other side has ended");
    if (n < 0) DIE_ERRNO("the connection to the other side");
    received += (size_t)n;
  }
}

double now(void) {
  struct timespec time;
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}
