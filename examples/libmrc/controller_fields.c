/* SPDX-License-Identifier: Apache-2.0
 *
 * A controller says how paths are made, and the device makes them: a GENERATED profile, of fields. It
 * also sets the congestion control of the queue pairs that use it. For fabrics that forward by UDP
 * source port and flow label (packet planes), where any EV can be sent; UDP planes can send only EVs
 * that they have opened. */
#include "controller.h"

int main(void) {
  program_name = "controller_fields";
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
  CHECK(mrc_ctl_modify_ev_profile(
      program.mrc, 9, &attr,
      MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT |
          MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK |
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

  struct traffic traffic;
  open_traffic(&traffic, &program, 9, 2);
  move(&traffic, 5);
  close_traffic(&traffic);
  end_profiles(&program, 9, 3);
  close_program(&program);
  printf("success\n");
  return 0;
}
