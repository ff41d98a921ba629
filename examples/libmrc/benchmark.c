// SPDX-License-Identifier: Apache-2.0
/* Writes of all sizes from one host to another, measured and checked: a benchmark of the kind that
 * makers of MRC cards ship.
 *
 * For each size the server posts a receive and says so by a write to a word in the client's memory,
 * for which the client waits without a call. The client writes, with up to 128 requests in flight
 * of which every 64th completes, and ends the size with a write with immediate. Then the server
 * compares what has arrived with what the client wrote. */
#include <getopt.h>
#include <stdbool.h>
#include <unistd.h>

#include "program.h"

enum { kDepth = 128, kSignalEvery = 64, kPatience = 120 };

struct options {
  const char *server, *device;
  int port;
  size_t min, max;
  long iterations, warm_up;
  double bytes; /* most per size */
  bool json;
};

static void usage(FILE* out) {
  (void)fprintf(out,
                "Usage: mrcrun %s [OPTION...]           (server)\n"
                "       mrcrun %s [OPTION...] SERVER    (client)\n"
                "\n"
                "Measures writes from the client to the server, of sizes that double, and checks\n"
                "what has arrived.\n"
                "\n"
                "  -d DEVICE  default: the first\n"
                "  -p PORT    TCP port of the server (18515)\n"
                "  -s BYTES   smallest size (1)\n"
                "  -e BYTES   largest size (67108864); the same on both sides\n"
                "  -n COUNT   writes of a size (1000)\n"
                "  -w COUNT   writes before these (10)\n"
                "  -b GB      no more than so many GB of a size (1)\n"
                "  -j         one line of JSON for each size\n"
                "  -h         this text\n",
                program_name, program_name);
}

static long number(const char* text, long least) {
  char* end = NULL;
  const long value = strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < least)
    DIE("'%s' is not a number of %ld or more", text, least);
  return value;
}

static struct options read_options(int argc, char** argv) {
  struct options o = {NULL, NULL, 18515, 1, (size_t)1 << 26, 1000, 10, 1e9, false};
  for (int option; (option = getopt(argc, argv, "d:p:s:e:n:w:b:jh")) != -1;) {
    switch (option) {
      case 'd':
        o.device = optarg;
        break;
      case 'p':
        o.port = (int)number(optarg, 1);
        break;
      case 's':
        o.min = (size_t)number(optarg, 1);
        break;
      case 'e':
        o.max = (size_t)number(optarg, 1);
        break;
      case 'n':
        o.iterations = number(optarg, 1);
        break;
      case 'w':
        o.warm_up = number(optarg, 0);
        break;
      case 'b':
        o.bytes = 1e9 * (double)number(optarg, 1);
        break;
      case 'j':
        o.json = true;
        break;
      case 'h':
        usage(stdout);
        exit(0);
      default:
        usage(stderr);
        exit(2);
    }
  }
  if (optind < argc) o.server = argv[optind++];
  if (optind < argc) usage(stderr), exit(2);
  return o;
}

/* One side. Its memory: a word that the peer writes, and behind it the data. */
struct side {
  struct program program;
  struct mrc_cq* cq;
  struct mrc_qp* qp;
  struct ibv_mr* mr;
  uint8_t* memory;
  struct address peer;
  long posted, completed; /* of the send queue */
};

enum { kData = 64 };

/* What byte i of the data is, in the round of that size. */
static uint8_t pattern(size_t i, size_t size) {
  return (uint8_t)(i * 31 + (i >> 8) + size);
}

static void fill(uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; ++i) data[i] = pattern(i, size);
}

/* Takes the completions that are there. That of a receive sets *received. */
static void take(struct side* side, bool* received) {
  struct ibv_wc wc[16];
  const int n = mrc_poll_cq(side->cq, 16, wc);
  if (n < 0) DIE_ERRNO("mrc_poll_cq");
  for (int i = 0; i < n; ++i) {
    if (wc[i].status != IBV_WC_SUCCESS)
      DIE("request %llu failed: %s", (unsigned long long)wc[i].wr_id,
          ibv_wc_status_str(wc[i].status));
    if (wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM)
      *received = true;
    else
      side->completed = (long)wc[i].wr_id; /* those before it are complete, too */
  }
}

static void post(struct side* side, enum ibv_wr_opcode opcode, size_t from, size_t to, size_t size,
                 bool signaled) {
  struct ibv_sge sge = {(uintptr_t)side->memory + from, (uint32_t)size, side->mr->lkey};
  struct ibv_send_wr wr, *bad = NULL;
  memset(&wr, 0, sizeof wr);
  wr.wr_id = (uint64_t)++side->posted;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
  wr.wr.rdma.remote_addr = side->peer.memory + to;
  wr.wr.rdma.rkey = side->peer.rkey;
  CHECK(mrc_post_send(side->qp, &wr, &bad));
}

static void await_all(struct side* side) {
  bool received = false;
  for (const double until = now() + kPatience; side->completed < side->posted;) {
    take(side, &received);
    if (now() > until) DIE("a request has not completed for %d s", kPatience);
  }
}

/* Writes, with so many in flight as the queue holds. Returns the seconds that it took. */
static double write_all(struct side* side, size_t size, long count) {
  const double start = now();
  double until = start + kPatience;
  bool received = false;
  for (long i = 0; i < count; ++i) {
    while (side->posted - side->completed >= kDepth) {
      const long before = side->completed;
      take(side, &received);
      if (side->completed != before) until = now() + kPatience;
      if (now() > until) DIE("a request has not completed for %d s", kPatience);
    }
    post(side, IBV_WR_RDMA_WRITE, kData, kData, size,
         (i + 1) % kSignalEvery == 0 || i + 1 == count);
  }
  await_all(side);
  return now() - start;
}

static void client(struct side* side, const struct options* o) {
  if (!o->json) printf("%12s %10s %12s %12s\n", "bytes", "writes", "Gb/s", "Mwrites/s");
  uint64_t round = 0;
  for (size_t size = o->min; size <= o->max; size *= 2) {
    volatile uint64_t* ready = (volatile uint64_t*)side->memory;
    ++round;
    for (const double until = now() + kPatience; *ready != round;)
      if (now() > until) DIE("the server is silent for %d s", kPatience);
    fill(side->memory + kData, size);
    long count = o->iterations;
    if ((double)count * (double)size > o->bytes) count = (long)(o->bytes / (double)size);
    if (count < 1) count = 1;
    if (o->warm_up > 0) (void)write_all(side, size, o->warm_up);
    const double seconds = write_all(side, size, count);
    post(side, IBV_WR_RDMA_WRITE_WITH_IMM, kData, kData, size < 8 ? size : 8, true);
    await_all(side);
    const double gbps = 8e-9 * (double)size * (double)count / seconds;
    const double rate = 1e-6 * (double)count / seconds;
    if (o->json)
      printf("{\"bytes\": %zu, \"writes\": %ld, \"gbps\": %.4f, \"mwrites_per_s\": %.5f}\n", size,
             count, gbps, rate);
    else
      printf("%12zu %10ld %12.3f %12.4f\n", size, count, gbps, rate);
    (void)fflush(stdout);
  }
}

static void server(struct side* side, const struct options* o) {
  uint64_t round = 0, wrong = 0;
  for (size_t size = o->min; size <= o->max; size *= 2) {
    memset(side->memory + kData, 0, size);
    struct ibv_recv_wr wr, *bad = NULL;
    memset(&wr, 0, sizeof wr);
    CHECK(mrc_post_recv(side->qp, &wr, &bad));
    ++round;
    memcpy(side->memory, &round, sizeof round);
    post(side, IBV_WR_RDMA_WRITE, 0, 0, sizeof round, true);
    bool received = false;
    /* As long as writes of one size may take. */
    for (const double until = now() + 10 * kPatience; !received;) {
      take(side, &received);
      if (now() > until) DIE("the client is silent");
    }
    size_t differ = 0;
    for (size_t i = 0; i < size; ++i) differ += side->memory[kData + i] != pattern(i, size);
    if (differ > 0) (void)fprintf(stderr, "%zu of %zu bytes are wrong\n", differ, size);
    wrong += differ;
  }
  await_all(side);
  if (wrong > 0) DIE("%llu bytes were wrong", (unsigned long long)wrong);
  printf("%llu sizes, all data as it was sent\n", (unsigned long long)round);
}

int main(int argc, char** argv) {
  program_name = "libmrc_benchmark";
  const struct options o = read_options(argc, argv);
  struct side side;
  memset(&side, 0, sizeof side);
  open_program(&side.program, o.device);
  side.cq = mrc_create_cq(side.program.mrc, 2 * kDepth, NULL, NULL, 0);
  if (side.cq == NULL) DIE_ERRNO("mrc_create_cq");
  side.qp = make_qp(&side.program, side.cq, kDepth + 1, 1);
  const size_t bytes = kData + o.max;
  side.memory = calloc(1, bytes);
  if (side.memory == NULL) DIE_ERRNO("memory");
  side.mr =
      ibv_reg_mr(side.program.pd, side.memory, bytes,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  if (side.mr == NULL) DIE_ERRNO("ibv_reg_mr");

  const int connection = meet(o.server, o.port);
  struct address mine = address_of(&side.program, side.qp, side.mr);
  exchange(connection, &mine, &side.peer, sizeof mine);
  connect_qp(side.qp, &side.peer, IBV_MTU_4096, NULL, 0);
  char ready = 1, other = 0;
  exchange(connection, &ready, &other, 1);
  if (o.server != NULL)
    client(&side, &o);
  else
    server(&side, &o);
  exchange(connection, &ready, &other, 1); /* nobody leaves while the other still needs answers */
  (void)close(connection);

  CHECK(mrc_destroy_qp(side.qp));
  CHECK(mrc_destroy_cq(side.cq));
  CHECK(ibv_dereg_mr(side.mr));
  close_program(&side.program);
  free(side.memory);
  return 0;
}
