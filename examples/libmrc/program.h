// SPDX-License-Identifier: Apache-2.0
/* What the C programs in this folder share: an open device with MRC on it, a TCP connection over
 * which two of them tell each other how to be reached, and an end with a reason. */
#pragma once

#include <errno.h>
#include <mrc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Ends the program with a reason: of a call that has set errno, or without. */
#define DIE_ERRNO(what) \
  (fprintf(stderr, "%s: %s: %s\n", program_name, (what), strerror(errno)), exit(1))
#define DIE(...)                                                                             \
  (fprintf(stderr, "%s: ", program_name), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), \
   exit(1))
/* For calls that return 0 if all went well. */
#define CHECK(call) ((call) == 0 ? (void)0 : (void)DIE_ERRNO(#call))

extern const char* program_name;

/* An open device. */
struct program {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct mrc_context* mrc;
  union ibv_gid gid; /* by which peers reach it */
};

/* Opens the device of that name, or the first one. Ends the program if it has no MRC. */
void open_program(struct program* program, const char* device);
void close_program(struct program* program);

/* A queue pair in RESET. */
struct mrc_qp* make_qp(struct program* program, struct mrc_cq* cq, uint32_t sends,
                       uint32_t receives);

/* What a peer has to know. Goes over TCP as it is: both sides are the same program. */
struct address {
  union ibv_gid gid;
  uint32_t qpn;
  uint32_t rkey;
  uint64_t memory;
};

/* The address of a queue pair, and of memory that the peer may write to (may be NULL). */
struct address address_of(struct program* program, struct mrc_qp* qp, struct ibv_mr* mr);

/* RESET to RTS, towards a peer; mrc_attr and its mask are for the step to INIT. */
void connect_qp(struct mrc_qp* qp, const struct address* peer, enum ibv_mtu mtu,
                struct mrc_qp_attr* init_attr, int init_mask);

/* A TCP connection: waits for one on that port (server is NULL), or connects to it. */
int meet(const char* server, int port);
/* Sends `mine`, and receives as much into `theirs`. */
void exchange(int connection, const void* mine, void* theirs, size_t bytes);

/* Seconds, from some moment on. */
double now(void);
