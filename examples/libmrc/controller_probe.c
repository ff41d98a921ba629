// SPDX-License-Identifier: Apache-2.0
/* A controller probes all paths to a host at once, and tells which answer and how long it takes.
 * Nobody has to be connected to that host. */
#include <arpa/inet.h>

#include "controller.h"

int main(int argc, char** argv) {
  program_name = "controller_probe";
  if (argc > 2) {
    (void)fprintf(stderr, "Usage: mrcrun %s [ADDRESS]; default: this host itself\n", program_name);
    return 2;
  }
  struct program program;
  open_program(&program, NULL);
  union ibv_gid to = program.gid;
  if (argc == 2) {
    memset(&to, 0, sizeof to); /* a RoCEv2 GID is an IPv6 address: here a mapped IPv4 address */
    to.raw[10] = to.raw[11] = 0xFF;
    if (inet_pton(AF_INET, argv[1], &to.raw[12]) != 1 && inet_pton(AF_INET6, argv[1], to.raw) != 1)
      DIE("%s is no address", argv[1]);
  }
  struct mrc_ctl_ev evs[64];
  int count = own_evs(&program, evs, 64);
  if (count == 0) { /* planes that can send any: one probe by each, on whatever path */
    struct mrc_ctl_device_attr device;
    CHECK(mrc_ctl_query_device(program.context, &device));
    memset(evs, 0, sizeof evs);
    for (uint8_t port = 1; port < 32; ++port)
      if ((device.phy_port_mask & 1u << port) != 0) evs[count++].port = port;
  }

  struct mrc_ctl_ep_req requests[64];
  struct mrc_ctl_ep_rsp responses[64];
  memset(requests, 0, sizeof requests);
  for (int i = 0; i < count; ++i) {
    requests[i].req_id = (uint16_t)i;
    requests[i].sgid = program.gid;
    requests[i].dgid = to;
    requests[i].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
    requests[i].req_ev = evs[i];
  }
  int answered = 0;
  const int result = mrc_ctl_ep_batch_send_wait(program.mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests,
                                                count, 1000000000, responses, &answered);
  if (result != 0 && errno != ETIMEDOUT) DIE_ERRNO("mrc_ctl_ep_batch_send_wait");
  for (int i = 0; i < answered; ++i) {
    const struct mrc_ctl_ev* ev = &evs[responses[i].req_id];
    printf("port %u, EV %02x%02x: %u ns\n", ev->port, ev->val[0], ev->val[1], responses[i].rtt);
  }
  printf("%d of %d paths answered\n", answered, count);
  close_program(&program);
  if (answered < count) return 1;
  printf("success\n");
  return 0;
}
