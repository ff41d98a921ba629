// SPDX-License-Identifier: Apache-2.0
/* The C API of MRC (libMRC, API 1.0.1) as OpenMRC declares it: queue pairs whose packets take many
 * paths at once, opened on a verbs context. Programs that are written against a vendor's mrc.h
 * compile against this one and run with libmrc.so.1; docs/libmrc.md says how, and what differs
 * from a network card.
 *
 * Devices are found, opened and closed, protection domains allocated and memory registered by
 * libibverbs; queue pairs, completion queues, channels and asynchronous events are objects of this
 * API alone, and no function of libibverbs takes them.
 *
 * Threads: any function may be called from any thread. Two threads must not destroy one object, or
 * destroy it while another uses it; but waits for events of a context or a channel end when it is
 * destroyed. Those, mrc_get_cq_event() and mrc_get_async_event(), are cancellation points
 * (pthread_cancel()); all other functions are none.
 *
 * Errors: functions that return a pointer return NULL and set errno. Functions marked A return 0,
 * or -1 and set errno. Those marked E return 0 or a positive errno value, as verbs do, and set
 * errno, too. An object or attributes that are NULL where they are needed, or an object that was
 * destroyed (unless a later one has its address): EINVAL. What fails changes nothing. In a child
 * made by fork(), objects of the parent, also its verbs contexts: EIO. */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "mrc_api_ver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_MAX_VENDOR_CFG_SIZE 128 /* bytes of vendor_cfg */

struct mrc_context;      /* MRC on an open verbs device */
struct mrc_comp_channel; /* tells which completion queues have something */
struct mrc_cq;           /* a completion queue */
struct mrc_qp_hint;      /* what is known of the traffic to come */
struct mrc_qp;           /* a queue pair */

/* ------------------------------------------------------------------------------- the device */

enum mrc_protocol_version {
  MRC_PROTOCOL_VERSION_0 = 0, /* the device chooses */
  MRC_PROTOCOL_VERSION_1 = 1, /* MRC 1.0 */
};

enum mrc_device_cap {
  MRC_DEVICE_CAP_TRIM_NACK = 1 << 0,   /* answers packets that switches have trimmed */
  MRC_DEVICE_CAP_DYNAMIC_MPR = 1 << 1, /* obeys a responder that takes fewer packets in flight */
  MRC_DEVICE_CAP_SVC_TIME = 1 << 2,    /* takes the peer's service time out of round trips */
};

struct mrc_device_attr {
  uint32_t mrc_protocol_version; /* bits of enum mrc_protocol_version */
  struct {
    uint16_t max_wimm;      /* most writes with immediate in flight, as requester */
    uint16_t max_wimm_dest; /* the same, as responder */
  } wimm_attr;
  struct {
    uint8_t max_mpr;        /* most packets in flight of a queue pair, in units of 128 */
    uint8_t mpr_resolution; /* steps of such limits, in units of 128 */
  } mpr_attr;
  struct {
    uint32_t max_qp_hint; /* most hints */
  } qp_attr;
  uint32_t cap; /* bits of enum mrc_device_cap */
};

#if MRC_API_VER_USED >= MRC_API_VER(1, 0, 1)
/* A. What the device can do, before or after a context is created: mrc may be NULL. *supported is 0
 * if the context is not one of OpenMRC, and the attributes are zero then. */
int mrc_query_device_ex(struct ibv_context* context, struct mrc_context* mrc,
                        struct mrc_device_attr* attr, int* supported);
#endif
/* A. The same. */
int mrc_query_device(struct ibv_context* context, struct mrc_device_attr* attr, int* supported);

/* The newest and the oldest version that this library serves, of the API and of the vendor's part.
 * Needs no device. Any of the pointers may be NULL. */
void mrc_query_version(uint32_t* current, uint32_t* oldest, uint32_t* vendor_current,
                       uint32_t* vendor_oldest);

struct mrc_context_attr {
  uint32_t mrc_api_version_used;        /* MRC_API_VER_USED; 0: current */
  uint32_t mrc_vendor_api_version_used; /* MRC_VENDOR_API_VER_USED; 0: current */
};

/* Opens MRC on a verbs context. attr may be NULL. Several contexts may be open at the same time,
 * and the verbs context may be closed before. ENOTSUP: the verbs context is not one of OpenMRC (run
 * the program with mrcrun), or the version is of a later major. */
struct mrc_context* mrc_create_context(struct ibv_context* context, struct mrc_context_attr* attr);
/* A. Objects that are left are destroyed with it. EINVAL: there is no such context. */
int mrc_destroy_context(struct mrc_context* mrc);

/* ------------------------------------------------------------------------ completion queues */

/* E. A channel whose descriptor is readable while it has events. */
int mrc_create_comp_channel(struct mrc_context* mrc, struct mrc_comp_channel** channel);
/* A. The descriptor, for poll(), and for O_NONBLOCK; not for read(). */
int mrc_get_comp_channel_fd(struct mrc_comp_channel* channel, int* fd);
/* E. EBUSY: completion queues use it. */
int mrc_destroy_comp_channel(struct mrc_comp_channel* channel);

/* A completion queue with room for cqe completions, 1 or more. cq_context comes back with its
 * events; channel may be NULL. EINVAL: comp_vector other than 0. ENOMEM: no room for another. */
struct mrc_cq* mrc_create_cq(struct mrc_context* mrc, int cqe, void* cq_context,
                             struct mrc_comp_channel* channel, int comp_vector);
/* Takes completions: how many, 0 .. num_entries, or -1 and errno. Completions of one queue pair
 * come in the order of its requests. A receive completes when everything that the peer has written
 * before is in memory. The immediate's bytes are those of the sender, not swapped. */
int mrc_poll_cq(struct mrc_cq* cq, int num_entries, struct ibv_wc* wc);
/* E. One event at the next completion, or the next one of a request with IBV_SEND_SOLICITED. Poll
 * once more afterwards: completions that are there already make no event. */
int mrc_req_notify_cq(struct mrc_cq* cq, int solicited_only);
/* A. Waits for an event of the channel. EAGAIN: there is none, and O_NONBLOCK is set. EINTR.
 * EINVAL: the channel was destroyed meanwhile. */
int mrc_get_cq_event(struct mrc_comp_channel* channel, struct mrc_cq** cq, void** cq_context);
/* Each event has to be acknowledged before its queue can be destroyed. */
void mrc_ack_cq_events(struct mrc_cq* cq, unsigned int nevents);
/* E. EBUSY: queue pairs use it. Waits until all of its events are acknowledged. */
int mrc_destroy_cq(struct mrc_cq* cq);

/* ------------------------------------------------------------------------------------ hints */

/* What traffic is to come, so that congestion control starts carefully where many send at once. 0:
 * not known. */
struct mrc_qp_hint_attr {
  int num_qps_per_peer;      /* queue pairs that send to one peer at the same time */
  int num_send_peers;        /* peers sent to at the same time */
  int num_remote_recv_peers; /* queue pairs of others that send to one of these peers */
  uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE]; /* ignored */
};

enum mrc_qp_hint_attr_mask {
  MRC_QP_HINT_NUM_QPS_PER_PEER = 1 << 0,
  MRC_QP_HINT_NUM_SEND_PEERS = 1 << 1,
  MRC_QP_HINT_NUM_REMOTE_RECV_PEERS = 1 << 2,
  MRC_QP_HINT_VENDOR_CFG = (int)(1u << 31),
};

struct mrc_qp_hint_init_attr {
  struct mrc_qp_hint_attr attr;
};

/* A hint for one or many queue pairs (MRC_QP_HINT). EINVAL: a negative number. ENOMEM: too many. */
struct mrc_qp_hint* mrc_create_qp_hint(struct mrc_context* mrc, struct mrc_qp_hint_init_attr* attr);
/* A. EBUSY: queue pairs have it. */
int mrc_destroy_qp_hint(struct mrc_qp_hint* hint);
/* A. */
int mrc_query_qp_hint(struct mrc_qp_hint* hint, struct mrc_qp_hint_attr* attr, int attr_mask);
/* A. Holds for all queue pairs that have the hint. EINVAL: a negative number, an unknown bit. */
int mrc_modify_qp_hint(struct mrc_qp_hint* hint, struct mrc_qp_hint_attr* attr, int attr_mask);

/* ------------------------------------------------------------------------------ queue pairs */

struct mrc_qp_init_attr {
  void* qp_context;
  struct mrc_cq* send_cq;  /* needed */
  struct mrc_cq* recv_cq;  /* needed; may be the same */
  struct ibv_qp_cap cap;   /* asked for, and on return granted */
  int sq_sig_all;          /* every request completes, IBV_SEND_SIGNALED or not */
  struct ibv_pd* pd;       /* needed */
  uint64_t send_ops_flags; /* 0, or of IBV_QP_EX_WITH_RDMA_WRITE and ..._WITH_IMM */
  enum mrc_protocol_version protocol_version; /* 0 or MRC_PROTOCOL_VERSION_1 */
};

enum mrc_qp_cap {
  MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED = 1 << 0, /* the peer does not answer trimmed packets */
  MRC_QP_CAP_DYNAMIC_MPR = 1 << 1,                /* obey the limit in the peer's SACKs */
  MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED = 1 << 2,  /* the peer gives no service time */
};

enum mrc_qp_attr_mask {
  MRC_QP_MAX_WIMM = 1 << 0,
  MRC_QP_MAX_WIMM_DEST = 1 << 1,
  MRC_QP_MPR = 1 << 2,
  MRC_QP_MPR_DEST = 1 << 3,
  MRC_QP_TIMEOUT = 1 << 4,
  MRC_QP_EV_PROFILE_ID = 1 << 5,
  MRC_QP_CC_PROFILE_ID = 1 << 6,
  MRC_QP_HINT = 1 << 7,
  MRC_QP_RETRY_CNT = 1 << 8,
  MRC_QP_CAP = 1 << 9,
  MRC_QP_VENDOR_CFG = (int)(1u << 31),
};

struct mrc_qp_attr {
  struct {
    uint8_t mpr;      /* most packets in flight as requester, units of 128 */
    uint8_t mpr_dest; /* packets tracked as responder, units of 128 */
  } mpr;
  struct {
    uint16_t max_wimm;      /* most writes with immediate in flight as requester */
    uint16_t max_wimm_dest; /* writes with immediate tracked as responder */
  } wimm;
  uint8_t timeout; /* T = 1.024 us x 2^n, n = 0 .. 24 */
  struct {
    uint64_t ev_profile_id; /* 0: the device's own paths */
    uint64_t cc_profile_id; /* 0: the device's own congestion control */
  } profile;
  struct {
    uint8_t linear_cnt; /* expirations after T each, 0 .. 7 */
    uint8_t exp_cnt;    /* then doubling ones, 0 .. 24; 25: for ever */
  } retry;
  struct mrc_qp_hint* qp_hint;                 /* NULL: none */
  uint32_t cap;                                /* bits of enum mrc_qp_cap */
  uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE]; /* zeros */
};

/* A queue pair in RESET. EINVAL: a queue or protection domain is missing, or of another context or
 * device; sizes out of range. ENOTSUP: operations other than writes, another protocol. ENOMEM: no
 * room. */
struct mrc_qp* mrc_create_qp(struct mrc_context* mrc, struct mrc_qp_init_attr* attr);
/* E. Waits until its asynchronous events are acknowledged. Requests that are not complete vanish.
 */
int mrc_destroy_qp(struct mrc_qp* qp);
/* E. What was given, granted, and is in force. Any of the pointers may be NULL. */
int mrc_query_qp(struct mrc_qp* qp, struct ibv_qp_attr* ibv_attr, int ibv_mask,
                 struct mrc_qp_attr* mrc_attr, int mrc_mask, struct mrc_qp_init_attr* init_attr);
/* E. A step to another state (IBV_QP_STATE) with its attributes: RESET to INIT to RTR to RTS, and
 * from any to ERR and RESET. RTR needs IBV_QP_AV (a GID) and IBV_QP_DEST_QPN; everything else has a
 * default. Profiles are taken in the step to INIT; MRC_QP_MPR, _MPR_DEST, _MAX_WIMM, _MAX_WIMM_DEST
 * and _CAP in those to RTR and RTS; _TIMEOUT and _RETRY_CNT in that to RTS. MRC_QP_HINT and
 * IBV_QP_ACCESS_FLAGS may change at any time, also without step. IBV_QP_PORT, _TIMEOUT, _RETRY_CNT,
 * _RNR_RETRY, _MIN_RNR_TIMER, _MAX_QP_RD_ATOMIC and _MAX_DEST_RD_ATOMIC have no meaning here and
 * are ignored; so is the port of an address. An IBV_QP_PATH_MTU above what the planes carry becomes
 * what they carry, with a line in the log; with option strict it is EINVAL. An attribute structure
 * may be NULL if its mask is 0. EINVAL: a step or an attribute that is not allowed there, a value
 * out of range. ENOENT: no such profile. ENOTSUP: vendor_cfg. */
int mrc_modify_qp(struct mrc_qp* qp, struct ibv_qp_attr* ibv_attr, int ibv_mask,
                  struct mrc_qp_attr* mrc_attr, int mrc_mask);
/* A. Its number, which the peer needs (IBV_QP_DEST_QPN). */
int mrc_get_qpn(struct mrc_qp* qp, uint32_t* qpn);
/* E. Posts receives, each for one write with immediate, without memory of their own. ENOMEM: the
 * queue is full. *bad_wr is the first that was not posted. */
int mrc_post_recv(struct mrc_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr);
/* E. Posts a chain of IBV_WR_RDMA_WRITE and IBV_WR_RDMA_WRITE_WITH_IMM. ENOMEM: the queue is full.
 * EINVAL: another operation, a key that does not fit, not in RTS. */
int mrc_post_send(struct mrc_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr);

/* ----------------------------------------------------------------------- asynchronous events */

struct mrc_async_event {
  union {
    struct mrc_cq* cq; /* IBV_EVENT_CQ_ERR */
    struct mrc_qp* qp; /* IBV_EVENT_QP_FATAL, _QP_REQ_ERR, _QP_ACCESS_ERR */
    int port_num;      /* IBV_EVENT_PORT_ACTIVE, _PORT_ERR: plane + 1 */
  } element;
  enum ibv_event_type event_type;
};

/* A. Waits for an event of the context's objects, or of a plane. EINTR. EINVAL: the context was
 * destroyed meanwhile. */
int mrc_get_async_event(struct mrc_context* mrc, struct mrc_async_event* event);
/* Each event has to be acknowledged before its object can be destroyed. */
void mrc_ack_async_event(struct mrc_async_event* event);

#ifdef __cplusplus
}
#endif
