// SPDX-License-Identifier: Apache-2.0
#include "controller.h"

enum { kPatience = 60 };

void open_traffic(struct traffic* traffic, struct program* program, uint64_t ev_profile,
                  uint64_t cc_profile) {
  traffic->cq = mrc_create_cq(program->mrc, 64, NULL, NULL, 0);
  if (traffic->cq == NULL) DIE_ERRNO("mrc_create_cq");
  traffic->memory = calloc(2, kTrafficBytes);
  if (traffic->memory == NULL) DIE_ERRNO("memory");
  traffic->mr = ibv_reg_mr(program->pd, traffic->memory, 2 * (size_t)kTrafficBytes,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (traffic->mr == NULL) DIE_ERRNO("ibv_reg_mr");
  traffic->a = make_qp(program, traffic->cq, 16, 1);
  traffic->b = make_qp(program, traffic->cq, 16, 1);
  struct mrc_qp_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.profile.ev_profile_id = ev_profile;
  attr.profile.cc_profile_id = cc_profile;
  const int mask = MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID;
  const struct address a = address_of(program, traffic->a, traffic->mr);
  const struct address b = address_of(program, traffic->b, traffic->mr);
  connect_qp(traffic->a, &b, IBV_MTU_1024, &attr, mask);
  connect_qp(traffic->b, &a, IBV_MTU_1024, &attr, mask);
}

void write_to(uint64_t memory, uint32_t rkey, struct mrc_qp* qp, struct mrc_cq* cq,
              struct ibv_mr* mr) {
  struct ibv_sge sge = {(uintptr_t)mr->addr, kTrafficBytes, mr->lkey};
  struct ibv_send_wr wr, *bad = NULL;
  memset(&wr, 0, sizeof wr);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = memory;
  wr.wr.rdma.rkey = rkey;
  CHECK(mrc_post_send(qp, &wr, &bad));
  struct ibv_wc wc;
  int n = 0;
  for (const double until = now() + kPatience; (n = mrc_poll_cq(cq, 1, &wc)) == 0;)
    if (now() > until) DIE("a write has not completed for %d s", kPatience);
  if (n < 0) DIE_ERRNO("mrc_poll_cq");
  if (wc.status != IBV_WC_SUCCESS) DIE("a write failed: %s", ibv_wc_status_str(wc.status));
}

void move(struct traffic* traffic, int buffers) {
  for (int i = 0; i < buffers; ++i) {
    memset(traffic->memory, i + 1, kTrafficBytes);
    write_to((uintptr_t)traffic->memory + kTrafficBytes, traffic->mr->rkey, traffic->a, traffic->cq,
             traffic->mr);
    if (memcmp(traffic->memory, traffic->memory + kTrafficBytes, kTrafficBytes) != 0)
      DIE("a write has left other bytes");
  }
}

void close_traffic(struct traffic* traffic) {
  CHECK(mrc_destroy_qp(traffic->a));
  CHECK(mrc_destroy_qp(traffic->b));
  CHECK(mrc_destroy_cq(traffic->cq));
  CHECK(ibv_dereg_mr(traffic->mr));
  free(traffic->memory);
}

int own_evs(struct program* program, struct mrc_ctl_ev* evs, int room) {
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY;
  /* Without room the call says how many there are. */
  if (mrc_ctl_query_ev_profile(program->mrc, 0, &attr, MRC_CTL_EV_PROFILE_EV_OP) != 0 &&
      errno != E2BIG)
    DIE_ERRNO("mrc_ctl_query_ev_profile");
  const int count = attr.ev_op.entry_count;
  if (count == 0) return 0;
  attr.ev_op.entries = calloc((size_t)count, sizeof *attr.ev_op.entries);
  if (attr.ev_op.entries == NULL) DIE_ERRNO("memory");
  CHECK(mrc_ctl_query_ev_profile(program->mrc, 0, &attr, MRC_CTL_EV_PROFILE_EV_OP));
  const int taken = count < room ? count : room;
  for (int i = 0; i < taken; ++i) evs[i] = attr.ev_op.entries[i].ev;
  free(attr.ev_op.entries);
  return taken;
}

void make_format(struct program* program, uint64_t id, enum mrc_ctl_ev_fmt_mode mode,
                 struct mrc_ctl_ev_fmt_field* fields, int count) {
  struct mrc_ctl_ev_fmt_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.ev_fmt_mode = mode;
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(mrc_ctl_modify_ev_fmt_profile(program->mrc, id, &attr,
                                      MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_STATE));
  attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
  attr.ev_fmt_op.fmt_fields = fields;
  attr.ev_fmt_op.fmt_field_count = count;
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  CHECK(mrc_ctl_modify_ev_fmt_profile(program->mrc, id, &attr,
                                      MRC_CTL_EV_FMT_PROFILE_OP | MRC_CTL_EV_FMT_PROFILE_STATE));
}

void make_explicit(struct program* program, uint64_t id, uint64_t format,
                   const struct mrc_ctl_ev* evs, int count) {
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  /* To OFFLINE: how many EVs there are, and of which format. */
  attr.ev_mode = MRC_CTL_EV_MODE_EXP;
  attr.ev_fmt_profile_id = format;
  attr.ev_count = (uint32_t)count;
  attr.ev_min_active = 1;
  attr.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD;
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(mrc_ctl_modify_ev_profile(program->mrc, id, &attr,
                                  MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                                      MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                                      MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_STATE));
  /* Then each entry, of which none is populated yet, and to ONLINE. */
  struct mrc_ctl_ev_op_entry* entries = calloc((size_t)count, sizeof *entries);
  if (entries == NULL) DIE_ERRNO("memory");
  for (int i = 0; i < count; ++i) {
    entries[i].ev = MRC_CTL_EV_UNPOPULATED;
    entries[i].ev_new = evs[i];
    entries[i].state = MRC_CTL_EV_GOOD;
  }
  attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
  attr.ev_op.entries = entries;
  attr.ev_op.entry_count = count;
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  CHECK(mrc_ctl_modify_ev_profile(program->mrc, id, &attr,
                                  MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_STATE));
  free(entries);
}

static const char* state_name(enum mrc_ctl_ev_state state) {
  switch (state) {
    case MRC_CTL_EV_GOOD:
      return "GOOD";
    case MRC_CTL_EV_ASSUMED_BAD:
      return "ASSUMED_BAD";
    case MRC_CTL_EV_DENIED:
      return "DENIED";
    default:
      return "UNKNOWN";
  }
}

void print_profile(struct program* program, uint64_t id) {
  struct mrc_ctl_ev_op_entry entries[256];
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY;
  attr.ev_op.entries = entries;
  attr.ev_op.entry_count = 256;
  CHECK(mrc_ctl_query_ev_profile(program->mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP));
  for (int i = 0; i < attr.ev_op.entry_count; ++i)
    printf("  port %u, EV %02x%02x%02x%02x: %s\n", entries[i].ev.port, entries[i].ev.val[0],
           entries[i].ev.val[1], entries[i].ev.val[2], entries[i].ev.val[3],
           state_name(entries[i].state));
}

void end_profiles(struct program* program, uint64_t id, uint64_t format) {
  const enum mrc_ctl_profile_state steps[] = {MRC_CTL_PROFILE_OFFLINE, MRC_CTL_PROFILE_INIT};
  struct mrc_ctl_ev_profile_attr ev;
  memset(&ev, 0, sizeof ev);
  struct mrc_ctl_ev_fmt_profile_attr fmt;
  memset(&fmt, 0, sizeof fmt);
  for (int i = 0; i < 2; ++i) {
    ev.profile_state = steps[i];
    CHECK(mrc_ctl_modify_ev_profile(program->mrc, id, &ev, MRC_CTL_EV_PROFILE_STATE));
  }
  for (int i = 0; i < 2; ++i) {
    fmt.profile_state = steps[i];
    CHECK(mrc_ctl_modify_ev_fmt_profile(program->mrc, format, &fmt, MRC_CTL_EV_FMT_PROFILE_STATE));
  }
}
