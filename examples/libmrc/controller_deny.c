// SPDX-License-Identifier: Apache-2.0
/* A controller denies the paths over one port, as over a link that monitoring found bad, and allows
 * them again, under traffic. */
#include "controller.h"

static void set_state(struct program* program, struct mrc_ctl_ev* evs, int count, uint8_t port,
                      enum mrc_ctl_ev_state state) {
  struct mrc_ctl_ev_op_entry entries[64];
  int n = 0;
  memset(entries, 0, sizeof entries);
  for (int i = 0; i < count; ++i) {
    if (evs[i].port != port) continue;
    entries[n].ev = evs[i];
    entries[n].state = state;
    entries[n++].flags = MRC_CTL_EV_OP_F_ALL_COPIES;
  }
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.ev_op.op = MRC_CTL_EV_OP_MODIFY_EV_STATE;
  attr.ev_op.entries = entries;
  attr.ev_op.entry_count = n;
  CHECK(mrc_ctl_modify_ev_profile(program->mrc, 7, &attr, MRC_CTL_EV_PROFILE_EV_OP));
}

int main(void) {
  program_name = "controller_deny";
  struct program program;
  open_program(&program, NULL);
  struct mrc_ctl_ev evs[64];
  const int count = own_evs(&program, evs, 64);
  if (count == 0) DIE("this example is for UDP planes, which say what EVs they can send");
  struct mrc_ctl_ev_fmt_field field = {16};
  make_format(&program, 1, MRC_CTL_EV_FMT_MODE_UDP, &field, 1);
  make_explicit(&program, 7, 1, evs, count);
  struct traffic traffic;
  open_traffic(&traffic, &program, 7, 0);
  move(&traffic, 5);

  set_state(&program, evs, count, 1, MRC_CTL_EV_DENIED);
  printf("port 1 denied:\n");
  print_profile(&program, 7);
  move(&traffic, 5);

  set_state(&program, evs, count, 1, MRC_CTL_EV_GOOD);
  printf("and allowed again:\n");
  print_profile(&program, 7);
  move(&traffic, 5);
  close_traffic(&traffic);
  end_profiles(&program, 7, 1);
  close_program(&program);
  printf("success\n");
  return 0;
}
