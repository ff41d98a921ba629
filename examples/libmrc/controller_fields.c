// SPDX-License-Identifier: Apache-2.0
/* A controller says how paths are made, and the device makes them: a GENERATED profile, of fields.
 * It also sets the congestion control of the queue pairs that use it. For fabrics that forward by
 * UDP source port and flow label (packet planes), where any EV can be sent; UDP planes can send
 * only EVs that they have opened.
 *
 * Two processes: without argument it is the server, with the server's address the client, which
 * writes to it. */
#include <unistd.h>

#include "controller.h"

enum { kBytes = kTrafficBytes, kWrites = 20, kPort = 18517 };

int main(int argc, char** argv) {
  program_name = "controller_fields";
  if (argc > 2) {
    (void)fprintf(stderr, "Usage: mrcrun %s [SERVER]\n", program_name);
    return 2;
  }
  struct program program;
  open_program(&program, NULL);
  struct mrc_ctl_device_attr device;
  CHECK(mrc_ctl_query_device(program.context, &device));
  if ((device.ev.ev_fmt_mode_mask & MRC_CTL_EV_FMT_MODE_STEV) == 0 || device.ev.ev_max_width < 32)
    DIE("the planes send no EVs of 32 bits; this example is for a fabric that forwards by them");

  /* The packet's bits: 16 of the flow label, then the UDP source port. */
  struct mrc_ctl_ev_fmt_field widths[2] = {{16}, {16}};
  make_format(&program, 3, MRC_CTL_EV_FMT_MODE_STEV, widths, 2);

  /* An EV has 8 + 4 bits, where the masks have ones: 0x0a00 to 0x0aff as label, and source ports
   * 0xc000, 0xc010, ... of which the first 10 are used. */
  struct mrc_ctl_ev_field fields[2] = {
      {16, 0x0A00, 0, 0xFF, 0x00FF},
      {16, 0xC000, 0, 9, 0x00F0},
  };
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.ev_mode = MRC_CTL_EV_MODE_GEN;
  attr.ev_fmt_profile_id = 3;
  attr.ev_count = 16;
  attr.ev_min_active = 4;
  attr.ev_event_mask = MRC_CTL_EV_ASSUMED_BAD;
  attr.ev_fields_op.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS;
  attr.ev_fields_op.fields = fields;
  attr.ev_fields_op.field_count = 2;
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(mrc_ctl_modify_ev_profile(program.mrc, 9, &attr,
                                  MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                                      MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                                      MRC_CTL_EV_PROFILE_EVENT_MASK |
                                      MRC_CTL_EV_PROFILE_EV_FIELDS_OP | MRC_CTL_EV_PROFILE_STATE));
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  CHECK(mrc_ctl_modify_ev_profile(program.mrc, 9, &attr, MRC_CTL_EV_PROFILE_STATE));
  print_profile(&program, 9);

  /* Congestion control: zeros are the device's own values. */
  struct mrc_ctl_cc_nscc_cfg config;
  memset(&config, 0, sizeof config);
  config.target_delay = 20000; /* ns */
  struct mrc_ctl_cc_profile_attr cc;
  memset(&cc, 0, sizeof cc);
  cc.algorithm = "uet-1.0-nscc";
  cc.profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(mrc_ctl_modify_cc_profile(program.mrc, 2, &cc,
                                  MRC_CTL_CC_PROFILE_ALGORITHM | MRC_CTL_CC_PROFILE_STATE));
  cc.cc_config = &config;
  cc.profile_state = MRC_CTL_PROFILE_ONLINE;
  CHECK(mrc_ctl_modify_cc_profile(program.mrc, 2, &cc,
                                  MRC_CTL_CC_PROFILE_CONFIG | MRC_CTL_CC_PROFILE_STATE));

  /* Queue pairs name the profiles on their way to INIT. */
  struct mrc_cq* cq = mrc_create_cq(program.mrc, 64, NULL, NULL, 0);
  if (cq == NULL) DIE_ERRNO("mrc_create_cq");
  struct mrc_qp* qp = make_qp(&program, cq, 16, 1);
  unsigned char* memory = calloc(1, kBytes);
  if (memory == NULL) DIE_ERRNO("memory");
  struct ibv_mr* mr =
      ibv_reg_mr(program.pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (mr == NULL) DIE_ERRNO("ibv_reg_mr");
  const int connection = meet(argc == 2 ? argv[1] : NULL, kPort);
  struct address mine = address_of(&program, qp, mr), peer;
  exchange(connection, &mine, &peer, sizeof mine);
  struct mrc_qp_attr own;
  memset(&own, 0, sizeof own);
  own.profile.ev_profile_id = 9;
  own.profile.cc_profile_id = 2;
  connect_qp(qp, &peer, IBV_MTU_1024, &own, MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID);
  char ready = 1, other = 0;
  exchange(connection, &ready, &other, 1);
  for (int i = 1; argc == 2 && i <= kWrites; ++i) {
    memset(memory, i, kBytes);
    write_to(peer.memory, peer.rkey, qp, cq, mr);
  }
  exchange(connection, &ready, &other, 1); /* the server waits here until all is written */
  if (argc == 1)
    for (size_t i = 0; i < kBytes; ++i)
      if (memory[i] != kWrites) DIE("byte %zu is wrong", i);
  (void)close(connection);

  CHECK(mrc_destroy_qp(qp));
  CHECK(mrc_destroy_cq(cq));
  CHECK(ibv_dereg_mr(mr));
  free(memory);
  end_profiles(&program, 9, 3);
  close_program(&program);
  printf("success\n");
  return 0;
}
