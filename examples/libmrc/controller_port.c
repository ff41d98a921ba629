// SPDX-License-Identifier: Apache-2.0
/* A controller takes each port out of use and back, as before its cable is pulled, under traffic.
 */
#include "controller.h"

static void set_port(struct program* program, uint8_t port, enum mrc_ctl_port_admin_state state) {
  struct mrc_ctl_port_attr attr = {state};
  CHECK(mrc_ctl_modify_port(program->mrc, port, &attr, MRC_CTL_PORT_ADMIN_STATE));
  attr.port_admin_state = MRC_CTL_PORT_ADMIN_ENABLED;
  CHECK(mrc_ctl_query_port(program->mrc, port, &attr, MRC_CTL_PORT_ADMIN_STATE));
  if (attr.port_admin_state != state) DIE("port %u is in another state", port);
  /* The device says so, too. */
  struct mrc_async_event event;
  CHECK(mrc_get_async_event(program->mrc, &event));
  printf("port %d: %s\n", event.element.port_num, ibv_event_type_str(event.event_type));
  mrc_ack_async_event(&event);
}

int main(void) {
  program_name = "controller_port";
  struct program program;
  open_program(&program, NULL);
  struct mrc_ctl_device_attr device;
  CHECK(mrc_ctl_query_device(program.context, &device));
  struct traffic traffic;
  open_traffic(&traffic, &program, 0, 0);
  move(&traffic, 5);
  if ((device.phy_port_mask & ~2u) == 0) DIE("the device has one port; set MRC_PLANES to more");
  for (uint8_t port = 1; port < 32; ++port) {
    if ((device.phy_port_mask & 1u << port) == 0) continue;
    set_port(&program, port, MRC_CTL_PORT_ADMIN_DISABLED);
    move(&traffic, 5); /* over the others */
    set_port(&program, port, MRC_CTL_PORT_ADMIN_ENABLED);
  }
  move(&traffic, 5);
  close_traffic(&traffic);
  close_program(&program);
  printf("success\n");
  return 0;
}
