// SPDX-License-Identifier: Apache-2.0
/* A controller writes the paths of a profile one by one, and a queue pair uses them: here half of
 * those that the device would use by itself. */
#include "controller.h"

int main(void) {
  program_name = "controller_explicit";
  struct program program;
  open_program(&program, NULL);

  /* Which EVs there are: a controller of a fabric knows, UDP planes say. */
  struct mrc_ctl_ev evs[64];
  const int count = own_evs(&program, evs, 64);
  if (count == 0) DIE("this example is for UDP planes, which say what EVs they can send");
  printf("%d paths; the profile has every other one\n", count);
  int chosen = 0;
  for (int i = 0; i < count; i += 2) evs[chosen++] = evs[i];

  /* An EV of UDP planes is the UDP source port: 16 bits, in one field. */
  struct mrc_ctl_ev_fmt_field field = {16};
  make_format(&program, 1, MRC_CTL_EV_FMT_MODE_UDP, &field, 1);
  make_explicit(&program, 7, 1, evs, chosen);

  struct traffic traffic;
  open_traffic(&traffic, &program, 7, 0);
  move(&traffic, 20);
  print_profile(&program, 7);

  /* While queue pairs use it, it stays. */
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  if (mrc_ctl_modify_ev_profile(program.mrc, 7, &attr, MRC_CTL_EV_PROFILE_STATE) == 0 ||
      errno != EBUSY)
    DIE("a profile in use went OFFLINE");
  close_traffic(&traffic);
  end_profiles(&program, 7, 1);
  close_program(&program);
  printf("success\n");
  return 0;
}
