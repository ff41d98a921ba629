// SPDX-License-Identifier: Apache-2.0
/* The controller's half of the C API of MRC (libMRC, control API 1.0.1) as OpenMRC declares it:
 * which paths queue pairs may take, by which congestion control, which planes carry traffic, and
 * what happens to paths. docs/libmrc.md says what differs from a network card, docs/profiles.md
 * what profiles are.
 *
 * Ports of MRC are the planes of a device: port N is plane N - 1.
 *
 * Calls that modify ports and profiles act on all devices of the host, those of other processes and
 * later ones included. A. EPERM: the thread lacks CAP_NET_ADMIN. EIO: a process does not answer; if
 * it was asked in time, nothing has changed, else it does what was changed once it runs again
 * (the log says which). MRC_VERBS_CONTROLLER=process: they act on this process alone.
 *
 * Marks A, and what NULL, threads and fork() mean: as in mrc.h. */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "mrc.h"
#include "mrc_ctl_api_ver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_CTL_MAX_VENDOR_CFG_SIZE 128 /* bytes of vendor_cfg, which must be zeros (ENOTSUP) */
#define MRC_CTL_EV_MAX_BYTES 32         /* bytes of an entropy value */

enum mrc_ctl_protocol_version {
  MRC_CTL_PROTOCOL_VERSION_0 = 0, /* the device chooses */
  MRC_CTL_PROTOCOL_VERSION_1 = 1,
};

/* ------------------------------------------------------------------------------- the device */

enum mrc_ctl_attr_opt {
  MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE = 1 << 0, /* EVs may change in use */
  MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE = 1 << 1, /* so may congestion control */
  MRC_CTL_OPT_CAP_EV_EVENT = 1 << 2,
  MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE = 1 << 3, /* explicit EVs must follow each other */
  MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT = 1 << 4,
  MRC_CTL_OPT_CAP_EP_OP_EV_PROBE = 1 << 5,
};

struct mrc_ctl_device_attr {
  uint32_t mrc_ctl_protocol_version; /* bits of enum mrc_ctl_protocol_version */
  struct {
    uint32_t ev_max_fmt_profiles;  /* format profiles that are not in INIT */
    uint32_t ev_max_profiles;      /* EV profiles that are not in INIT */
    uint32_t ev_max_count;         /* EVs over all profiles */
    uint32_t ev_free_count;        /* of these, not in use */
    uint32_t ev_max_count_profile; /* EVs of one profile */
    uint32_t ev_count_align;       /* their number is a multiple of this */
    uint32_t ev_max_width;         /* bits */
    uint32_t ev_fmt_mode_mask;     /* of enum mrc_ctl_ev_fmt_mode */
    uint32_t ev_mode_mask;         /* of enum mrc_ctl_ev_mode */
    uint32_t ev_op_max_entries;    /* entries of an operation; 0: as many as you like */
  } ev;
  struct {
    uint32_t cc_max_profiles; /* CC profiles that are not in INIT */
    const char** algorithms;  /* names; NULL ends the list, which is valid for ever */
  } cc;
  uint32_t phy_port_mask; /* bit N: port N */
  uint32_t opt_attr;      /* bits of enum mrc_ctl_attr_opt */
};

#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
/* A. mrc may be NULL. *supported is 0 if the context is not one of OpenMRC. */
int mrc_ctl_query_device_ex(struct ibv_context* context, struct mrc_context* mrc,
                            struct mrc_ctl_device_attr* attr, int* supported);
#endif
/* A. ENOTSUP: the context is not one of OpenMRC. */
int mrc_ctl_query_device(struct ibv_context* context, struct mrc_ctl_device_attr* attr);
/* As mrc_query_version(), of the control API. */
void mrc_ctl_query_version(uint32_t* current, uint32_t* oldest, uint32_t* vendor_current,
                           uint32_t* vendor_oldest);

/* ------------------------------------------------------------------------------------ ports */

enum mrc_ctl_port_admin_state {
  MRC_CTL_PORT_ADMIN_DISABLED = 0, /* carries nothing, not even probes; peers are told */
  MRC_CTL_PORT_ADMIN_ENABLED = 1,
};

enum mrc_ctl_port_attr_mask {
  MRC_CTL_PORT_ADMIN_STATE = 1 << 0,
};

struct mrc_ctl_port_attr {
  enum mrc_ctl_port_admin_state port_admin_state;
};

/* A. EINVAL: no such port, an unknown bit or value. The last port may be disabled, too. */
int mrc_ctl_modify_port(struct mrc_context* mrc, uint8_t port, struct mrc_ctl_port_attr* attr,
                        int attr_mask);
/* A. */
int mrc_ctl_query_port(struct mrc_context* mrc, uint8_t port, struct mrc_ctl_port_attr* attr,
                       int attr_mask);

/* --------------------------------------------------------------------------------- profiles */

/* Steps: INIT to OFFLINE to ONLINE, and back in the same order. In one call attributes are set
 * first, then operations are done, then the state changes. */
enum mrc_ctl_profile_state {
  MRC_CTL_PROFILE_INIT,    /* nothing is configured */
  MRC_CTL_PROFILE_OFFLINE, /* may be changed */
  MRC_CTL_PROFILE_ONLINE,  /* may be used */
};

/* Format profiles: how many bits of an EV are in which packet field. */

enum mrc_ctl_ev_fmt_mode {
  MRC_CTL_EV_FMT_MODE_STEV = 1 << 0, /* UDP source port and low 16 bits of the flow label */
  MRC_CTL_EV_FMT_MODE_SRV6 = 1 << 1, /* outer destination address, and a segment */
  MRC_CTL_EV_FMT_MODE_UDP = 1 << 2,  /* UDP source port */
};

enum mrc_ctl_ev_fmt_op {
  MRC_CTL_EV_FMT_OP_MODIFY_FIELDS,
  MRC_CTL_EV_FMT_OP_QUERY_FIELDS,
};

enum mrc_ctl_ev_fmt_profile_attr_mask {
  MRC_CTL_EV_FMT_PROFILE_STATE = 1 << 0,
  MRC_CTL_EV_FMT_PROFILE_CUR_STATE = 1 << 1,
  MRC_CTL_EV_FMT_PROFILE_MODE = 1 << 2,
  MRC_CTL_EV_FMT_PROFILE_OP = 1 << 3,
  MRC_CTL_EV_FMT_VENDOR_CFG = (int)(1u << 31),
};

struct mrc_ctl_ev_fmt_field {
  uint8_t width; /* bits */
};

struct mrc_ctl_ev_fmt_profile_attr {
  enum mrc_ctl_profile_state profile_state;     /* to go to; queried: the present one */
  enum mrc_ctl_profile_state cur_profile_state; /* that it must be in; queried: the present one */
  enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
  struct {
    enum mrc_ctl_ev_fmt_op op;
    struct mrc_ctl_ev_fmt_field* fmt_fields; /* the most significant first */
    int fmt_field_count;                     /* given; queried: room, and then how many there are */
  } ev_fmt_op;
  uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* A. EINVAL: not allowed, or not in this state. EBUSY: an EV profile that uses it is ONLINE. E2BIG:
 * too many fields, bits or profiles. ENOTSUP: vendor_cfg. */
int mrc_ctl_modify_ev_fmt_profile(struct mrc_context* mrc, uint64_t ev_fmt_profile_id,
                                  struct mrc_ctl_ev_fmt_profile_attr* attr, int attr_mask);
/* A. E2BIG: no room for the fields; fmt_field_count says how many there are. */
int mrc_ctl_query_ev_fmt_profile(struct mrc_context* mrc, uint64_t ev_fmt_profile_id,
                                 struct mrc_ctl_ev_fmt_profile_attr* attr, int attr_mask);

/* EV profiles: which paths queue pairs may take. */

/* A string of bits: the first is the most significant of byte 0. STEV and UDP use the first 4
 * bytes, SRv6 16 for the address and 16 for the segment. */
typedef uint8_t mrc_ctl_ev_t[MRC_CTL_EV_MAX_BYTES];

struct mrc_ctl_ev {
  mrc_ctl_ev_t val;
  uint8_t port; /* 1 or more */
};

/* An entry that was never written. */
#define MRC_CTL_EV_UNPOPULATED ((struct mrc_ctl_ev){{0}, 0})

enum mrc_ctl_ev_state {
  MRC_CTL_EV_GOOD = 1 << 0,             /* carries data */
  MRC_CTL_EV_ASSUMED_BAD = 1 << 1,      /* carries none until probes succeed */
  MRC_CTL_EV_DENIED = 1 << 2,           /* carries none: the controller says so */
  MRC_CTL_EV_UNKNOWN = (int)(1u << 31), /* good towards one destination, bad towards another */
};

enum mrc_ctl_ev_mode {
  MRC_CTL_EV_MODE_AUTO = 1 << 0, /* the device's own paths */
  MRC_CTL_EV_MODE_EXP = 1 << 1,  /* explicit: written one by one */
  MRC_CTL_EV_MODE_GEN = 1 << 2,  /* generated by the device from fields */
};

enum mrc_ctl_ev_op {
  MRC_CTL_EV_OP_REPLACE_EV,      /* ev by ev_new, in state GOOD, which may be 0 here, or DENIED */
  MRC_CTL_EV_OP_MODIFY_EV_STATE, /* of ev, to GOOD or DENIED */
  MRC_CTL_EV_OP_QUERY_EV_STATE,  /* of ev */
  MRC_CTL_EV_OP_QUERY_EV_ARRAY,  /* all */
};

enum mrc_ctl_ev_fields_op {
  MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS,
  MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS,
};

enum mrc_ctl_ev_profile_attr_mask {
  MRC_CTL_EV_PROFILE_STATE = 1 << 0,
  MRC_CTL_EV_PROFILE_CUR_STATE = 1 << 1,
  MRC_CTL_EV_PROFILE_MODE = 1 << 2,
  MRC_CTL_EV_PROFILE_FMT_ID = 1 << 3,
  MRC_CTL_EV_PROFILE_COUNT = 1 << 4,
  MRC_CTL_EV_PROFILE_MIN_ACTIVE = 1 << 5,
  MRC_CTL_EV_PROFILE_EVENT_MASK = 1 << 6,
  MRC_CTL_EV_PROFILE_EV_OP = 1 << 7,
  MRC_CTL_EV_PROFILE_EV_FIELDS_OP = 1 << 8, /* not together with EV_OP */
  MRC_CTL_EV_PROFILE_VENDOR_CFG = (int)(1u << 31),
};

/* How the bits of an EV become a field: init_val with the EV's bits where mask has ones. */
struct mrc_ctl_ev_field {
  uint32_t width; /* bits */
  uint32_t init_val;
  uint32_t min_val; /* smallest value of the EV's bits, of those that are generated */
  uint32_t max_val; /* largest */
  uint32_t mask;
};

enum mrc_ctl_ev_op_flags {
  MRC_CTL_EV_OP_F_ALL_COPIES = 1 << 0, /* all entries of this EV, not one of them */
};

struct mrc_ctl_ev_op_entry {
  struct mrc_ctl_ev ev;
  struct mrc_ctl_ev ev_new;
  enum mrc_ctl_ev_state state;
  uint32_t flags; /* bits of enum mrc_ctl_ev_op_flags */
};

struct mrc_ctl_ev_profile_attr {
  enum mrc_ctl_profile_state profile_state;
  enum mrc_ctl_profile_state cur_profile_state;
  enum mrc_ctl_ev_mode ev_mode;
  uint64_t ev_fmt_profile_id; /* not for AUTO */
  uint32_t ev_count;          /* size of the array */
  uint32_t ev_min_active;     /* so many stay in use, however bad they are */
  int ev_event_mask;          /* GOOD, ASSUMED_BAD: the changes that make events */
  struct {
    enum mrc_ctl_ev_op op;
    struct mrc_ctl_ev_op_entry* entries;
    int entry_count; /* QUERY_EV_ARRAY: room, and then how many there are */
  } ev_op;
  struct {
    enum mrc_ctl_ev_fields_op op;
    struct mrc_ctl_ev_field* fields;
    int field_count; /* given; queried: room, and then how many there are */
  } ev_fields_op;
  uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* A. The first entry of an operation that fails ends it; those before it are done. MIN_ACTIVE and
 * EVENT_MASK are needed before ONLINE. EINVAL, E2BIG: as for format profiles. ENOTSUP: EVs that the
 * planes can't send; vendor_cfg. EBUSY: queue pairs use it. ENOENT: no such EV, or no such format
 * profile. */
int mrc_ctl_modify_ev_profile(struct mrc_context* mrc, uint64_t ev_profile_id,
                              struct mrc_ctl_ev_profile_attr* attr, int attr_mask);
/* A. E2BIG: no room; entry_count or field_count says how many there are. ENOENT: no such EV.
 * Profile 0 is the device's own: ONLINE, AUTO; where planes can only send EVs that they have opened
 * (UDP), its array is these, in MRC_CTL_EV_FMT_MODE_UDP, with their states in this process. */
int mrc_ctl_query_ev_profile(struct mrc_context* mrc, uint64_t ev_profile_id,
                             struct mrc_ctl_ev_profile_attr* attr, int attr_mask);

/* CC profiles: congestion control. */

enum mrc_ctl_cc_profile_attr_mask {
  MRC_CTL_CC_PROFILE_STATE = 1 << 0,
  MRC_CTL_CC_PROFILE_CUR_STATE = 1 << 1,
  MRC_CTL_CC_PROFILE_ALGORITHM = 1 << 2,
  MRC_CTL_CC_PROFILE_CONFIG = 1 << 3,
  MRC_CTL_CC_PROFILE_VENDOR_CFG = (int)(1u << 31),
};

/* Parameters of "uet-1.0-nscc", and max_cwnd of "fixed". 0: the device's own value. */
struct mrc_ctl_cc_nscc_cfg {
  uint8_t disable_qa;               /* no quick adapt */
  uint32_t adjust_bytes_threshold;  /* bytes */
  uint32_t adjust_period_threshold; /* ns */
  uint32_t base_rtt;                /* ns, without queueing */
  float eta, fi, fi_scale, gamma, max_md_jump;
  uint32_t max_cwnd; /* bytes */
  uint8_t qa_gate;
  uint32_t qa_threshold; /* ns */
  uint32_t target_delay; /* ns of queueing */
};

struct mrc_ctl_cc_profile_attr {
  enum mrc_ctl_profile_state profile_state;
  enum mrc_ctl_profile_state cur_profile_state;
  const char* algorithm; /* NULL: none */
  const void* cc_config; /* struct mrc_ctl_cc_nscc_cfg. Queried: the library's, until the thread
                            queries again */
  uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* A. EINVAL: unknown algorithm, a value out of range, not in this state. EBUSY: queue pairs use it.
 * E2BIG: too many profiles. */
int mrc_ctl_modify_cc_profile(struct mrc_context* mrc, uint64_t cc_profile_id,
                              struct mrc_ctl_cc_profile_attr* attr, int attr_mask);
/* A. */
int mrc_ctl_query_cc_profile(struct mrc_context* mrc, uint64_t cc_profile_id,
                             struct mrc_ctl_cc_profile_attr* attr, int attr_mask);

/* -------------------------------------------------------------------------------- EV events */

/* An EV went to another state, towards one destination. */
struct mrc_ctl_ev_event {
  uint64_t profile_id;  /* 0: queue pairs without EV profile */
  struct mrc_ctl_ev ev; /* as in the profile's array */
  uint32_t drop_count;  /* events lost right before this one; exact */
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
  enum mrc_ctl_ev_state state; /* GOOD or ASSUMED_BAD */
#endif
};

/* A completion queue for EV events, with room for cqe of them, 1 .. 1,048,576. Only
 * mrc_ctl_poll_ev_event(), mrc_req_notify_cq(), the functions of channels and mrc_destroy_cq() take
 * it. When it is full, events are dropped and counted. */
struct mrc_cq* mrc_ctl_create_ev_event_cq(struct mrc_context* mrc, int cqe, void* cq_context,
                                          struct mrc_comp_channel* channel, int comp_vector);
/* How many events were taken, 0 .. num_entries, or a negative errno value. */
int mrc_ctl_poll_ev_event(struct mrc_cq* ev_cq, int num_entries, struct mrc_ctl_ev_event* ev_event);

/* ------------------------------------------------------------------------ requests to endpoints */

enum mrc_ctl_ep_op_type {
  MRC_CTL_EP_OP_EV_PROBE,           /* is the path there, and how long does it take? */
  MRC_CTL_EP_OP_PORT_STATUS_UPDATE, /* says which of this device's ports are up */
};

struct mrc_ctl_ep_req {
  uint16_t req_id;          /* comes back with the response; each once in a batch */
  union ibv_gid sgid, dgid; /* RoCEv2; sgid is this device's */
  enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
  struct mrc_ctl_ev req_ev; /* the path, and the port on which it begins; zeros: any */
  union {
    struct {
      uint32_t port_status; /* bit N: port N is up */
    } port_status_update;
  } op;
};

struct mrc_ctl_ep_rsp {
  uint16_t req_id;
  uint8_t port;         /* on which it came */
  unsigned int rtt;     /* ns */
  uint8_t adj_svc_time; /* 0 */
};

/* A. Sends a batch of requests of one kind, to any hosts, and waits for all responses, which come
 * in any order. req_tc: DSCP, 0 .. 63; 0: that of the device's control packets. *num_rsp is set in
 * each case. ETIMEDOUT: some did not come. EINVAL: a req_id twice, a sgid or port that is not the
 * device's, req_tc above 63. ENOTSUP: an EV that the planes can't send. */
int mrc_ctl_ep_batch_send_wait(struct mrc_context* mrc, uint8_t req_tc,
                               enum mrc_ctl_ep_op_type op_type, struct mrc_ctl_ep_req* req,
                               int num_req, uint32_t rsp_timeout_ns, struct mrc_ctl_ep_rsp* rsp,
                               int* num_rsp);

#ifdef __cplusplus
}
#endif
