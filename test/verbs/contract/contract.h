// SPDX-License-Identifier: Apache-2.0
// What a provider of verbs promises to programs, as calls of libibverbs alone: any provider that
// reaches itself by its own address can be held to it. The device is $CONTRACT_DEVICE, or the first
// one. `verbs_contract [BEGINNING]...` runs the checks whose names begin like that, or all.
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/// A check: `name` is "subject: what holds".
struct check {
  const char* name;
  void (*run)(void);
};
/// Each ends with a null name.
extern const struct check flow_checks[], order_checks[], thread_checks[], event_checks[],
    error_checks[], state_checks[], lifetime_checks[];

/// Notes a failure of the check that is running. Any thread.
void failed(const char* file, int line, const char* what, long long is, long long wanted);
/// Has the check that is running failed? What repeats itself may end then.
bool has_failed(void);
/// Ends the program: nothing that follows would mean anything.
void give_up(const char* file, int line, const char* what) __attribute__((noreturn));

#define EQUAL(is, wanted)                                                 \
  do {                                                                    \
    const long long is_ = (long long)(is), wanted_ = (long long)(wanted); \
    if (is_ != wanted_) failed(__FILE__, __LINE__, #is, is_, wanted_);    \
  } while (0)
#define HOLDS(what) EQUAL(!!(what), 1)
/// A call that makes something: it makes nothing, and errno says why.
#define NOTHING(call, wanted) \
  do {                        \
    errno = 0;                \
    HOLDS((call) == NULL);    \
    EQUAL(errno, wanted);     \
  } while (0)
#define NEEDED(what)                                 \
  do {                                               \
    if (!(what)) give_up(__FILE__, __LINE__, #what); \
  } while (0)

/// An open device with memory that everything is sent from and to.
struct host {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_mr* mr;
  uint8_t* bytes;
  union ibv_gid gid;
  uint16_t lid;
};
void open_host(struct host* host);
void close_host(struct host* host);
/// By which it reaches itself.
struct ibv_ah_attr own_address(const struct host* host);
/// The next asynchronous event of that kind, which must come. Others are passed over.
struct ibv_async_event event_of(struct host* host, enum ibv_event_type type);

/// A queue pair; its completion queues may be those of others, too.
struct end {
  struct ibv_qp* qp;
  struct ibv_qp_cap cap;  ///< as granted
};
void make_end(struct host* host, struct end* end, enum ibv_qp_type type, struct ibv_cq* send_cq,
              struct ibv_cq* receive_cq, struct ibv_srq* srq, uint32_t sends, uint32_t receives);
void destroy_end(struct end* end);
/// What ibv_modify_qp() needs for a step: to INIT, RTR or RTS.
struct step {
  struct ibv_qp_attr attributes;
  int mask;
};
struct step step_to(const struct host* host, const struct end* end, enum ibv_qp_state state,
                    uint32_t qpn);
void to_init(struct end* end);
void to_error(struct end* end);
enum ibv_qp_state state_of(struct end* end);
/// From RESET to RTS, towards that queue pair of this host (of UD: any).
void connect_to(struct host* host, struct end* end, uint32_t qpn);
void connect_both(struct host* host, struct end* a, struct end* b);
struct ibv_cq* make_cq(struct host* host, uint32_t entries, struct ibv_comp_channel* channel);

/// Two connected queue pairs, each with completion queues of its own that have an entry for
/// each request.
struct pair {
  struct host host;
  struct ibv_cq *a_cq, *b_cq;
  struct end a, b;
};
void open_pair(struct pair* pair, uint32_t sends, uint32_t receives);  ///< RC
void open_pair_of(struct pair* pair, enum ibv_qp_type type, uint32_t sends, uint32_t receives);
void close_pair(struct pair* pair);

/// A write of 8 bytes, with immediate or without. 0, or an errno value.
int post_write(struct host* host, struct end* end, uint64_t id, enum ibv_wr_opcode opcode,
               unsigned flags);
int post_receive(struct host* host, struct end* end, uint64_t id);
int post_shared(struct host* host, struct ibv_srq* srq, uint64_t id);
struct ibv_srq* make_srq(struct host* host, uint32_t receives);

/// The next completion, which must come.
struct ibv_wc next_of(struct ibv_cq* cq);
/// Polls until a number of completions have come; each must have this status.
void take(struct ibv_cq* cq, uint32_t count, enum ibv_wc_status status);
/// Gives requests under way time to complete.
void let_pass(unsigned milliseconds);
/// A clock, seconds.
double now(void);
