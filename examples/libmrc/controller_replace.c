// SPDX-License-Identifier: Apache-2.0
/* A controller replaces a path of a profile while a queue pair uses it. */
#include "controller.h"

int main(void) {
  program_name = "controller_replace";
  struct program program;
  open_program(&program, NULL);
  struct mrc_ctl_ev evs[64];
  const int count = own_evs(&program, evs, 64);
  if (count < 3) DIE("fewer than 3 paths; set MRC_PATHS");

  /* The profile has the first two paths, one of them twice: it gets two thirds of the packets. */
  const struct mrc_ctl_ev first[3] = {evs[0], evs[1], evs[1]};
  struct mrc_ctl_ev_fmt_field field = {16};
  make_format(&program, 1, MRC_CTL_EV_FMT_MODE_UDP, &field, 1);
  make_explicit(&program, 7, 1, first, 3);
  struct traffic traffic;
  open_traffic(&traffic, &program, 7, 0);
  move(&traffic, 5);
  printf("before:\n");
  print_profile(&program, 7);

  /* All copies of the second, by the third. From the return of the call on, no packet is given the
   * old one. */
  struct mrc_ctl_ev_op_entry entry;
  memset(&entry, 0, sizeof entry);
  entry.ev = evs[1];
  entry.ev_new = evs[2];
  entry.state = MRC_CTL_EV_GOOD;
  entry.flags = MRC_CTL_EV_OP_F_ALL_COPIES;
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
  attr.ev_op.entries = &entry;
  attr.ev_op.entry_count = 1;
  CHECK(mrc_ctl_modify_ev_profile(program.mrc, 7, &attr, MRC_CTL_EV_PROFILE_EV_OP));
  move(&traffic, 5);
  printf("after:\n");
  print_profile(&program, 7);

  /* The old one is no longer there. */
  attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_STATE;
  if (mrc_ctl_query_ev_profile(program.mrc, 7, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0 ||
      errno != ENOENT)
    DIE("the replaced EV is still there");
  close_traffic(&traffic);
  end_profiles(&program, 7, 1);
  close_program(&program);
  printf("success\n");
  return 0;
}
