// SPDX-License-Identifier: Apache-2.0
/* Collective operations between two processes, over the transport of a plugin of NCCL for MRC.
 *
 * A message has a sender and a receiver. The receiver posts a receive in each queue pair and says
 * by a write where the data is to go: an entry of a ring in the sender's memory, which the sender
 * watches without a call. The sender splits the data over its queue pairs, in chains of up to eight
 * writes, each ended by a write with immediate. Its completion at the receiver means that all bytes
 * before it have arrived. For memory of a GPU, a read from a queue pair that is connected to itself
 * would flush what the PCI bus still holds back; it is made here, too. */
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "program.h"

enum {
  kQps = 2,        /* per connection */
  kSlots = 8,      /* messages on the way per connection */
  kWrites = 8,     /* of a chain */
  kAlign = 128,    /* bytes: where data may be split */
  kPatience = 120, /* s */
  kSignalEvery = 64,
};

/* Where the data of a message is to go: an entry of the ring, written by the receiver. */
struct entry {
  uint64_t address;
  uint64_t bytes;
  uint32_t rkey;
  uint32_t reserved[5];
  uint64_t index; /* number of the message, from 1 on; written last, since writes arrive in order */
  uint64_t padding[2];
};
_Static_assert(sizeof(struct entry) == 64 && offsetof(struct entry, index) == 40,
               "as plugins have it");

/* One direction between two processes. */
struct link {
  struct program* program;
  struct mrc_cq* cq;
  struct mrc_qp* qps[kQps];
  struct mrc_qp_hint* hints[kQps];
  struct entry* ring; /* the sender's is written by the receiver, whose own is the source */
  struct ibv_mr* ring_mr;
  struct address peers[kQps];
  uint64_t messages;        /* begun */
  uint64_t arrived[kSlots]; /* immediates of a message, at the receiver */
  uint64_t sent[kSlots];    /* completed chains of a message, at the sender */
  long announcements;
};

/* A queue pair that is connected to itself, to flush by reads. */
struct flush {
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  char byte;
};

static void await(double until, const char* what) {
  if (now() > until) DIE("%s for %d s", what, kPatience);
}

static void open_link(struct link* link, struct program* program, int connection) {
  memset(link, 0, sizeof *link);
  link->program = program;
  link->cq = mrc_create_cq(program->mrc, 4 * kSlots * kQps * kWrites, NULL, NULL, 0);
  if (link->cq == NULL) DIE_ERRNO("mrc_create_cq");
  link->ring = aligned_alloc(64, kSlots * sizeof(struct entry));
  if (link->ring == NULL) DIE_ERRNO("memory");
  memset(link->ring, 0, kSlots * sizeof(struct entry));
  /* Not relaxed: the entry's index must not become visible before the rest. */
  link->ring_mr = ibv_reg_mr(program->pd, link->ring, kSlots * sizeof(struct entry),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (link->ring_mr == NULL) DIE_ERRNO("ibv_reg_mr");
  struct address mine[kQps];
  for (int i = 0; i < kQps; ++i) {
    struct mrc_qp_hint_init_attr hint;
    memset(&hint, 0, sizeof hint);
    hint.attr.num_qps_per_peer = kQps;
    hint.attr.num_send_peers = 1;
    link->hints[i] = mrc_create_qp_hint(program->mrc, &hint);
    if (link->hints[i] == NULL) DIE_ERRNO("mrc_create_qp_hint");
    link->qps[i] = make_qp(program, link->cq, 2 * kSlots * (kWrites + 1), kSlots);
    mine[i] = address_of(program, link->qps[i], link->ring_mr);
  }
  exchange(connection, mine, link->peers, sizeof mine);
  for (int i = 0; i < kQps; ++i) {
    struct mrc_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_hint = link->hints[i];
    connect_qp(link->qps[i], &link->peers[i], IBV_MTU_4096, &attr, MRC_QP_HINT);
  }
}

static void close_link(struct link* link) {
  for (int i = 0; i < kQps; ++i) {
    CHECK(mrc_destroy_qp(link->qps[i]));
    CHECK(mrc_destroy_qp_hint(link->hints[i]));
  }
  CHECK(ibv_dereg_mr(link->ring_mr));
  CHECK(mrc_destroy_cq(link->cq));
  free(link->ring);
}

static void open_flush(struct flush* flush, struct program* program) {
  memset(flush, 0, sizeof *flush);
  flush->cq = ibv_create_cq(program->context, 16, NULL, NULL, 0);
  if (flush->cq == NULL) DIE_ERRNO("ibv_create_cq");
  flush->mr = ibv_reg_mr(program->pd, &flush->byte, 1, IBV_ACCESS_LOCAL_WRITE);
  if (flush->mr == NULL) DIE_ERRNO("ibv_reg_mr");
  struct ibv_qp_init_attr init;
  memset(&init, 0, sizeof init);
  init.send_cq = init.recv_cq = flush->cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 8;
  init.cap.max_send_sge = 1;
  flush->qp = ibv_create_qp(program->pd, &init);
  if (flush->qp == NULL) DIE_ERRNO("ibv_create_qp");
  struct ibv_qp_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  CHECK(ibv_modify_qp(flush->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = flush->qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = program->gid;
  CHECK(ibv_modify_qp(flush->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 20;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  CHECK(ibv_modify_qp(flush->qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void run_flush(struct flush* flush, const void* memory, uint32_t rkey) {
  struct ibv_sge sge = {(uintptr_t)&flush->byte, 1, flush->mr->lkey};
  struct ibv_send_wr wr, *bad = NULL;
  memset(&wr, 0, sizeof wr);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = (uintptr_t)memory;
  wr.wr.rdma.rkey = rkey;
  CHECK(ibv_post_send(flush->qp, &wr, &bad));
  struct ibv_wc wc;
  for (const double until = now() + kPatience; ibv_poll_cq(flush->cq, 1, &wc) == 0;)
    await(until, "a flush has not completed");
  if (wc.status != IBV_WC_SUCCESS) DIE("flush: %s", ibv_wc_status_str(wc.status));
}

static void close_flush(struct flush* flush) {
  CHECK(ibv_destroy_qp(flush->qp));
  CHECK(ibv_dereg_mr(flush->mr));
  CHECK(ibv_destroy_cq(flush->cq));
}

/* Takes completions: four at a time, as plugins do. wr_id is the slot; announcements have kSlots.
 */
static void progress(struct link* link) {
  struct ibv_wc wc[4];
  const int n = mrc_poll_cq(link->cq, 4, wc);
  if (n < 0) DIE_ERRNO("mrc_poll_cq");
  for (int i = 0; i < n; ++i) {
    if (wc[i].status != IBV_WC_SUCCESS)
      DIE("queue pair %u: %s", wc[i].qp_num, ibv_wc_status_str(wc[i].status));
    if (wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM)
      ++link->arrived[wc[i].wr_id];
    else if (wc[i].wr_id < kSlots)
      ++link->sent[wc[i].wr_id];
  }
}

/* The receiver: says where a message is to go. Returns its slot. */
static unsigned post_message(struct link* link, void* data, size_t bytes, uint32_t rkey) {
  const unsigned slot = (unsigned)(link->messages++ % kSlots);
  link->arrived[slot] = 0;
  for (int i = 0; i < kQps; ++i) {
    struct ibv_recv_wr wr, *bad = NULL;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = slot;
    CHECK(mrc_post_recv(link->qps[i], &wr, &bad));
  }
  struct entry* entry = &link->ring[slot];
  entry->address = (uintptr_t)data;
  entry->bytes = bytes;
  entry->rkey = rkey;
  entry->index = link->messages;
  struct ibv_sge sge = {(uintptr_t)entry, sizeof *entry, link->ring_mr->lkey};
  struct ibv_send_wr wr, *bad = NULL;
  memset(&wr, 0, sizeof wr);
  wr.wr_id = kSlots;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = ++link->announcements % kSignalEvery == 0 ? IBV_SEND_SIGNALED : 0;
  wr.wr.rdma.remote_addr = link->peers[0].memory + slot * sizeof *entry;
  wr.wr.rdma.rkey = link->peers[0].rkey;
  CHECK(mrc_post_send(link->qps[0], &wr, &bad));
  return slot;
}

/* The sender: sends the next message, once the receiver has said where to. */
static unsigned send_message(struct link* link, const uint8_t* data, size_t bytes, uint32_t lkey) {
  const unsigned slot = (unsigned)(link->messages++ % kSlots);
  link->sent[slot] = 0;
  const volatile struct entry* entry = &link->ring[slot];
  for (const double until = now() + kPatience; entry->index != link->messages;)
    await(until, "no receive was announced");
  if (entry->bytes != bytes) DIE("the receiver takes %llu bytes", (unsigned long long)entry->bytes);
  /* Each queue pair gets a part, and each write of a chain a part of that. */
  const size_t part = (bytes / kQps / kAlign + 1) * kAlign;
  for (int q = 0; q < kQps; ++q) {
    const size_t begin = (size_t)q * part < bytes ? (size_t)q * part : bytes;
    const size_t end = begin + part < bytes ? begin + part : bytes;
    const size_t piece = ((end - begin) / kWrites / kAlign + 1) * kAlign;
    struct ibv_send_wr chain[kWrites + 1], *bad = NULL;
    struct ibv_sge sges[kWrites];
    int n = 0;
    memset(chain, 0, sizeof chain);
    for (size_t at = begin; at < end; at += piece, ++n) {
      const size_t length = end - at < piece ? end - at : piece;
      sges[n] = (struct ibv_sge){(uintptr_t)data + at, (uint32_t)length, lkey};
      chain[n].sg_list = &sges[n];
      chain[n].num_sge = 1;
      chain[n].opcode = IBV_WR_RDMA_WRITE;
      chain[n].wr.rdma.remote_addr = entry->address + at;
      chain[n].wr.rdma.rkey = entry->rkey;
      chain[n].next = &chain[n + 1];
    }
    chain[n].wr_id = slot;
    chain[n].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    chain[n].imm_data = (uint32_t)bytes;
    chain[n].send_flags = IBV_SEND_SIGNALED;
    CHECK(mrc_post_send(link->qps[q], chain, &bad));
  }
  return slot;
}

/* The two directions of a process, and what it works on. */
struct rank {
  struct program program;
  struct link out, in;
  struct flush flush;
  int number;
  float *data, *scratch;
  struct ibv_mr *data_mr, *scratch_mr;
};

/* Numbers in registered memory. */
struct numbers {
  float* first;
  size_t count;
  struct ibv_mr* mr;
};

/* Sends numbers to the other rank, and receives some. */
static void send_receive(struct rank* rank, struct numbers from, struct numbers to) {
  const unsigned expected =
      post_message(&rank->in, to.first, to.count * sizeof(float), to.mr->rkey);
  const unsigned sent = send_message(&rank->out, (const uint8_t*)from.first,
                                     from.count * sizeof(float), from.mr->lkey);
  const double until = now() + kPatience;
  while (rank->in.arrived[expected] < kQps || rank->out.sent[sent] < kQps) {
    progress(&rank->in);
    progress(&rank->out);
    await(until, "a message has not arrived");
  }
  if (to.count > 0) run_flush(&rank->flush, to.first, to.mr->rkey);
}

/* Sums over both ranks, as a ring does it: each sums one half, and then both exchange theirs. */
static void all_reduce(struct rank* rank, size_t count) {
  const size_t half = count / 2; /* of odd counts, rank 1 has the larger one */
  struct numbers halves[2] = {{rank->data, half, rank->data_mr},
                              {rank->data + half, count - half, rank->data_mr}};
  struct numbers *mine = &halves[rank->number], *other = &halves[1 - rank->number];
  const struct numbers scratch = {rank->scratch, mine->count, rank->scratch_mr};
  send_receive(rank, *other, scratch);
  for (size_t i = 0; i < mine->count; ++i) mine->first[i] += rank->scratch[i];
  send_receive(rank, *mine, *other);
}

static float value(int rank, size_t i, int round) {
  return (float)((i * 7 + (size_t)rank * 13 + (size_t)round) % 1024);
}

static void usage(FILE* out) {
  (void)fprintf(
      out,
      "Usage: mrcrun %s [-p PORT] [-n ROUNDS] [-e NUMBERS]           (rank 0)\n"
      "       mrcrun %s [-p PORT] [-n ROUNDS] [-e NUMBERS] RANK0     (rank 1)\n"
      "\n"
      "Sums and exchanges arrays of numbers between two processes and checks the results.\n"
      "  -p PORT     TCP port of rank 0 (18516)\n"
      "  -n ROUNDS   of each operation and size (20)\n"
      "  -e NUMBERS  in the largest arrays (1048576); the same on both sides\n",
      program_name, program_name);
}

int main(int argc, char** argv) {
  program_name = "libmrc_collectives";
  int port = 18516, rounds = 20;
  size_t most = 1 << 20;
  for (int option; (option = getopt(argc, argv, "p:n:e:h")) != -1;) {
    switch (option) {
      case 'p':
        port = atoi(optarg);
        break;
      case 'n':
        rounds = atoi(optarg);
        break;
      case 'e':
        most = (size_t)atol(optarg);
        break;
      case 'h':
        usage(stdout);
        return 0;
      default:
        usage(stderr);
        return 2;
    }
  }
  if (port < 1 || port > 65535 || rounds < 1 || most < 1) usage(stderr), exit(2);
  const char* server = optind < argc ? argv[optind] : NULL;

  struct rank rank;
  memset(&rank, 0, sizeof rank);
  rank.number = server == NULL ? 0 : 1;
  open_program(&rank.program, NULL);
  const size_t bytes = most * sizeof(float);
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  rank.data = malloc(bytes);
  rank.scratch = malloc(bytes);
  if (rank.data == NULL || rank.scratch == NULL) DIE_ERRNO("memory");
  rank.data_mr = ibv_reg_mr(rank.program.pd, rank.data, bytes, access);
  rank.scratch_mr = ibv_reg_mr(rank.program.pd, rank.scratch, bytes, access);
  if (rank.data_mr == NULL || rank.scratch_mr == NULL) DIE_ERRNO("ibv_reg_mr");
  const int connection = meet(server, port);
  /* Rank 0's way out is rank 1's way in. */
  open_link(rank.number == 0 ? &rank.out : &rank.in, &rank.program, connection);
  open_link(rank.number == 0 ? &rank.in : &rank.out, &rank.program, connection);
  open_flush(&rank.flush, &rank.program);
  char ready = 1, other = 0;
  exchange(connection, &ready, &other, 1);

  long operations = 0;
  for (size_t count = 1; count <= most;
       count = count < most && count * 4 > most ? most : count * 4) {
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < count; ++i) rank.data[i] = value(rank.number, i, round);
      all_reduce(&rank, count);
      for (size_t i = 0; i < count; ++i)
        if (rank.data[i] != value(0, i, round) + value(1, i, round))
          DIE("all-reduce of %zu numbers, round %d: number %zu is wrong", count, round, i);
      for (size_t i = 0; i < count; ++i) rank.data[i] = value(rank.number, i, round + 5);
      const struct numbers from = {rank.data, count, rank.data_mr};
      const struct numbers to = {rank.scratch, count, rank.scratch_mr};
      send_receive(&rank, from, to);
      for (size_t i = 0; i < count; ++i)
        if (rank.scratch[i] != value(1 - rank.number, i, round + 5))
          DIE("exchange of %zu numbers, round %d: number %zu is wrong", count, round, i);
      operations += 2;
    }
    if (count == most) break;
  }
  exchange(connection, &ready, &other, 1);
  (void)close(connection);
  printf("rank %d: %ld operations, all results as they should be\n", rank.number, operations);

  close_link(&rank.in);
  close_link(&rank.out);
  close_flush(&rank.flush);
  CHECK(ibv_dereg_mr(rank.data_mr));
  CHECK(ibv_dereg_mr(rank.scratch_mr));
  close_program(&rank.program);
  free(rank.data);
  free(rank.scratch);
  return 0;
}
