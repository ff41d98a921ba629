// SPDX-License-Identifier: Apache-2.0
/* A controller logs what happens to paths. It needs something to happen: run it with faults, as
 * MRC_FAULTS='plane=0,down@1s-3s', and it ends when all paths that became bad are good again. */
#include "controller.h"

int main(int argc, char** argv) {
  program_name = "controller_events";
  const double seconds = argc > 1 ? atof(argv[1]) : 20;
  struct program program;
  open_program(&program, NULL);
  struct mrc_cq* events = mrc_ctl_create_ev_event_cq(program.mrc, 1024, NULL, NULL, 0);
  if (events == NULL) DIE_ERRNO("mrc_ctl_create_ev_event_cq");
  struct traffic traffic;
  open_traffic(&traffic, &program, 0, 0);
  int bad = 0, good = 0;
  for (const double until = now() + seconds; now() < until && (bad == 0 || good < bad);) {
    move(&traffic, 1);
    struct mrc_ctl_ev_event batch[16];
    const int n = mrc_ctl_poll_ev_event(events, 16, batch);
    if (n < 0) DIE("mrc_ctl_poll_ev_event: %s", strerror(-n));
    for (int i = 0; i < n; ++i) {
      const struct mrc_ctl_ev_event* e = &batch[i];
      if (e->drop_count > 0) printf("%u events were lost\n", e->drop_count);
      const int is_bad = e->state == MRC_CTL_EV_ASSUMED_BAD;
      bad += is_bad;
      good += !is_bad;
      printf("%.3f s: profile %llu, port %u, EV %02x%02x: %s\n", seconds - (until - now()),
             (unsigned long long)e->profile_id, e->ev.port, e->ev.val[0], e->ev.val[1],
             is_bad ? "ASSUMED_BAD" : "GOOD");
    }
  }
  printf("%d paths became bad, %d good again\n", bad, good);
  close_traffic(&traffic);
  CHECK(mrc_destroy_cq(events));
  close_program(&program);
  printf("success\n");
  return 0;
}
