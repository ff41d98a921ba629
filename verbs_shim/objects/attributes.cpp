// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/attributes.hpp"

#include <cstdio>
#include <limits>

namespace mrc_verbs {

namespace {

/// Width and speed as ports give them: lanes (1X: 1, 4X: 2, 8X: 4) and a code for the speed of one.
struct Link {
  double gigabits;
  std::uint8_t width, speed;
};

/// Ascending.
constexpr Link kLinks[] = {
    {2.5, 1, 1},    // 1X SDR, as Gigabit Ethernet says, too
    {10, 1, 4},     // 1X QDR
    {25, 1, 32},    // 1X EDR
    {40, 2, 4},     // 4X QDR
    {50, 1, 64},    // 1X HDR
    {100, 2, 32},   // 4X EDR
    {200, 2, 64},   // 4X HDR
    {400, 2, 128},  // 4X NDR
    {800, 4, 128},  // 8X NDR
};

/// The fastest that is not faster than all planes together.
Link link_of(double gigabits) {
  Link best = kLinks[0];
  for (const Link& link : kLinks)
    if (link.gigabits <= gigabits) best = link;
  return best;
}

constexpr int kMaxCqe = 4'194'304;  // entries of a completion queue
constexpr int kMaxAh = 65536;       // address handles are the shim's own

/// 4.096 us x 2^8, about 1 ms: the time after which the helper thread answers for a program that
/// has just stopped to poll.
constexpr std::uint8_t kAckDelay = 8;

}  // namespace

ibv_device_attr device_attributes(const Host& host) {
  const mrc::Config& config = host.device().config();
  const auto lanes = static_cast<int>(host.device().lane_count());
  ibv_device_attr a{};
  std::snprintf(a.fw_ver, sizeof a.fw_ver, "%s", OPENMRC_VERSION);
  a.node_guid = a.sys_image_guid = host.guid();
  a.max_mr_size = std::numeric_limits<std::uint64_t>::max();
  a.page_size_cap = ~std::uint64_t{4095};
  a.vendor_id = host.settings().vendor_id;
  a.vendor_part_id = host.settings().vendor_part_id;
  a.hw_ver = 1;
  a.max_qp = static_cast<int>(config.max_qps) * lanes;
  a.max_qp_wr = static_cast<int>(kMaxQueue);
  a.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                       IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
  a.max_sge = static_cast<int>(mrc::kMaxSendSges);
  a.max_sge_rd = a.max_sge;
  a.max_cq = static_cast<int>(config.max_cqs);
  a.max_cqe = kMaxCqe;
  a.max_mr = static_cast<int>(config.max_mrs);
  a.max_pd = static_cast<int>(config.max_pds) - 1;  // one is the device's own
  const bool rc = !config.strict;                   // exactly MRC 1.0 has writes only
  a.max_qp_rd_atom = a.max_qp_init_rd_atom = rc ? mrc::kMaxReads : 0;
  a.max_res_rd_atom = a.max_qp * a.max_qp_rd_atom;
  a.atomic_cap = rc ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  a.max_srq = static_cast<int>(config.max_srqs) * lanes;
  a.max_srq_wr = static_cast<int>(kMaxQueue);
  a.max_srq_sge = static_cast<int>(mrc::kMaxReceiveSges);
  a.max_ah = kMaxAh;
  a.max_pkeys = 1;
  a.local_ca_ack_delay = kAckDelay;
  a.phys_port_cnt = 1;
  return a;
}

ibv_device_attr_ex device_attributes_ex(const Host& host) {
  ibv_device_attr_ex a{};
  a.orig_attr = device_attributes(host);
  a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
  a.phys_port_cnt_ex = 1;
  return a;
}

ibv_port_attr port_attributes(const Host& host, unsigned port) {
  const bool up = port == 1 ? host.port_up() : host.plane_up(port - 1);
  const double all = host.device().config().cc_link_speed;
  const Link link = link_of(port == 1 ? all : all / host.device().plane_count());
  ibv_port_attr a{};
  a.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  a.max_mtu = IBV_MTU_4096;
  a.active_mtu = host.active_mtu();
  a.gid_tbl_len = 1;
  a.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  a.max_msg_sz = 1u << 30;
  a.pkey_tbl_len = 1;
  a.max_vl_num = 1;
  a.active_width = link.width;
  a.active_speed = link.speed;
  a.phys_state = up ? 5 : 3;  // LinkUp, Disabled
  a.link_layer = IBV_LINK_LAYER_ETHERNET;
  return a;
}

}  // namespace mrc_verbs
