// SPDX-License-Identifier: Apache-2.0
// mrc_ctl.h: profiles with all their operations and states, ports, EV events, requests to
// endpoints.
#include <algorithm>
#include <set>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace control_test {

/// The EVs of the device's own paths: the only ones that UDP planes send. The tests' device has 4
/// in each of 2 planes.
std::vector<mrc_ctl_ev> own_evs(const Connected& c) {
  mrc_ctl_ev_profile_attr attr{};
  attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY;
  CHECK(mrc_ctl_query_ev_profile(c.mrc.context, 0, &attr, MRC_CTL_EV_PROFILE_EV_OP) == -1);
  CHECK(errno == E2BIG);
  REQUIRE(attr.ev_op.entry_count == 8);
  std::vector<mrc_ctl_ev_op_entry> entries(8);
  attr.ev_op.entries = entries.data();
  REQUIRE(mrc_ctl_query_ev_profile(c.mrc.context, 0, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);
  std::vector<mrc_ctl_ev> evs;
  for (const mrc_ctl_ev_op_entry& entry : entries) {
    evs.push_back(entry.ev);
    CHECK((entry.state == MRC_CTL_EV_GOOD || entry.state == MRC_CTL_EV_ASSUMED_BAD));
  }
  return evs;
}

/// A format profile for EVs that are UDP source ports, ONLINE.
void make_format(mrc_context* mrc, std::uint64_t id) {
  mrc_ctl_ev_fmt_field field{16};
  mrc_ctl_ev_fmt_profile_attr format{};
  format.profile_state = MRC_CTL_PROFILE_OFFLINE;
  format.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
  REQUIRE(mrc_ctl_modify_ev_fmt_profile(mrc, id, &format, kState | MRC_CTL_EV_FMT_PROFILE_MODE) ==
          0);
  format.profile_state = MRC_CTL_PROFILE_ONLINE;
  format.ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, &field, 1};
  REQUIRE(mrc_ctl_modify_ev_fmt_profile(mrc, id, &format, kState | MRC_CTL_EV_FMT_PROFILE_OP) == 0);
}

TEST_CASE("what the device says of its control") {
  Program program;
  Mrc mrc(program);
  mrc_ctl_device_attr attr;
  std::memset(&attr, 0xFF, sizeof attr);
  REQUIRE(mrc_ctl_query_device(program.context, &attr) == 0);
  CHECK(attr.mrc_ctl_protocol_version == MRC_CTL_PROTOCOL_VERSION_1);
  CHECK(attr.ev.ev_max_fmt_profiles > 0);
  CHECK(attr.ev.ev_max_profiles > 0);
  CHECK(attr.ev.ev_free_count == attr.ev.ev_max_count);
  CHECK(attr.ev.ev_max_count_profile > 0);
  CHECK(attr.ev.ev_count_align == 1);
  CHECK(attr.ev.ev_max_width == 16);
  CHECK(attr.ev.ev_fmt_mode_mask == (MRC_CTL_EV_FMT_MODE_UDP | MRC_CTL_EV_FMT_MODE_STEV));
  CHECK(attr.ev.ev_mode_mask == 7);
  CHECK(attr.ev.ev_op_max_entries == 0);
  CHECK(attr.phy_port_mask == 0b110);
  CHECK((attr.opt_attr & MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT) != 0);
  CHECK((attr.opt_attr & MRC_CTL_OPT_CAP_EP_OP_EV_PROBE) != 0);
  CHECK((attr.opt_attr & MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE) == 0);
  std::set<std::string> algorithms;
  for (const char** name = attr.cc.algorithms; *name != nullptr; ++name) algorithms.insert(*name);
  CHECK(algorithms == std::set<std::string>{"uet-1.0-nscc", "fixed"});
  int supported = 0;
  CHECK(mrc_ctl_query_device_ex(program.context, mrc.context, &attr, &supported) == 0);
  CHECK(supported == 1);
  CHECK(mrc_ctl_query_device(program.context, nullptr) == -1);
  CHECK(mrc_ctl_query_device_ex(program.context, nullptr, &attr, nullptr) == -1);
}

TEST_CASE("format profiles: states, fields, what is refused") {
  Program program;
  Mrc mrc(program);
  mrc_ctl_ev_fmt_profile_attr a{};
  constexpr int kMode = MRC_CTL_EV_FMT_PROFILE_MODE, kOp = MRC_CTL_EV_FMT_PROFILE_OP;
  const auto modify = [&](int mask) {
    errno = 0;
    return mrc_ctl_modify_ev_fmt_profile(mrc.context, 5, &a, mask) == 0 ? 0 : errno;
  };
  a.profile_state = MRC_CTL_PROFILE_ONLINE;
  CHECK(modify(kState) == EINVAL);  // from INIT
  a.profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(modify(kState) == EINVAL);  // without mode
  a.ev_fmt_mode = static_cast<mrc_ctl_ev_fmt_mode>(3);
  CHECK(modify(kState | kMode) == EINVAL);
  a.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
  CHECK(modify(kState | kMode | 1 << 20) == EINVAL);
  a.vendor_cfg[5] = 1;
  CHECK(modify(kState | kMode | MRC_CTL_EV_FMT_VENDOR_CFG) == ENOTSUP);
  a.vendor_cfg[5] = 0;
  CHECK(modify(kState | kMode | MRC_CTL_EV_FMT_VENDOR_CFG) == 0);

  a.cur_profile_state = MRC_CTL_PROFILE_ONLINE;
  a.profile_state = MRC_CTL_PROFILE_ONLINE;
  CHECK(modify(kState | kCurState) == EINVAL);
  a.cur_profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(modify(kState | kCurState) == EINVAL);  // no fields
  std::array<mrc_ctl_ev_fmt_field, 40> fields{};
  fields.fill({1});
  a.ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, fields.data(), 40};
  CHECK(modify(kState | kOp) == E2BIG);
  fields[0].width = 17;
  a.ev_fmt_op.fmt_field_count = 1;
  CHECK(modify(kState | kOp) == E2BIG);
  a.ev_fmt_op.fmt_field_count = -1;
  CHECK(modify(kOp) == EINVAL);
  a.ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, nullptr, 1};
  CHECK(modify(kOp) == EINVAL);
  fields[0].width = 10;
  fields[1].width = 6;
  a.ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, fields.data(), 2};
  CHECK(modify(kState | kCurState | kOp) == 0);

  mrc_ctl_ev_fmt_profile_attr seen{};
  std::array<mrc_ctl_ev_fmt_field, 2> room{};
  seen.ev_fmt_op = {MRC_CTL_EV_FMT_OP_QUERY_FIELDS, room.data(), 1};
  CHECK(mrc_ctl_query_ev_fmt_profile(mrc.context, 5, &seen, kOp) == -1);
  CHECK(errno == E2BIG);
  CHECK(seen.ev_fmt_op.fmt_field_count == 2);
  CHECK(mrc_ctl_query_ev_fmt_profile(mrc.context, 5, &seen, kState | kCurState | kMode | kOp) == 0);
  CHECK(seen.profile_state == MRC_CTL_PROFILE_ONLINE);
  CHECK(seen.cur_profile_state == MRC_CTL_PROFILE_ONLINE);
  CHECK(seen.ev_fmt_mode == MRC_CTL_EV_FMT_MODE_UDP);
  CHECK(room[0].width == 10);
  CHECK(room[1].width == 6);
  seen.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
  CHECK(mrc_ctl_query_ev_fmt_profile(mrc.context, 5, &seen, kOp) == -1);
  CHECK(errno == EINVAL);

  for (const auto state : {MRC_CTL_PROFILE_OFFLINE, MRC_CTL_PROFILE_INIT}) {
    a.profile_state = state;
    CHECK(modify(kState) == 0);
  }
  CHECK(mrc_ctl_modify_ev_fmt_profile(mrc.context, 0, &a, kState) == -1);  // the device's own
  CHECK(errno == EINVAL);
  CHECK(mrc_ctl_modify_ev_fmt_profile(mrc.context, 5, nullptr, 0) == 0);
  CHECK(mrc_ctl_modify_ev_fmt_profile(mrc.context, 5, nullptr, kState) == -1);
  CHECK(mrc_ctl_modify_ev_fmt_profile(nullptr, 5, &a, kState) == -1);
}

TEST_CASE("an explicit profile carries a queue pair, and what it denies carries nothing") {
  Connected c;
  const std::vector<mrc_ctl_ev> evs = own_evs(c);
  REQUIRE(evs.size() == 8);  // 4 paths in each of 2 planes
  mrc_context* mrc = c.mrc.context;
  make_format(mrc, 900);
  mrc_ctl_ev_profile_attr a{};
  std::vector<mrc_ctl_ev_op_entry> entries(evs.size());
  for (std::size_t i = 0; i < evs.size(); ++i) {
    entries[i].ev_new = evs[i];  // without state, as some controllers leave it: GOOD
    if (i % 2 == 0) entries[i].state = MRC_CTL_EV_GOOD;
  }
  a.profile_state = MRC_CTL_PROFILE_OFFLINE;
  a.ev_mode = MRC_CTL_EV_MODE_EXP;
  a.ev_fmt_profile_id = 900;
  a.ev_count = 8;
  a.ev_min_active = 1;
  a.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD;
  // Everything with the step to OFFLINE, as the examples of controllers do.
  REQUIRE(mrc_ctl_modify_ev_profile(mrc, 41, &a,
                                    kState | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                                        MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                                        MRC_CTL_EV_PROFILE_EVENT_MASK) == 0);
  a.ev_op = {MRC_CTL_EV_OP_REPLACE_EV, entries.data(), 8};
  a.profile_state = MRC_CTL_PROFILE_ONLINE;
  REQUIRE(mrc_ctl_modify_ev_profile(mrc, 41, &a, kState | MRC_CTL_EV_PROFILE_EV_OP) == 0);

  // A query with too little room says how much is needed.
  mrc_ctl_ev_profile_attr seen{};
  seen.ev_op = {MRC_CTL_EV_OP_QUERY_EV_ARRAY, nullptr, 0};
  CHECK(mrc_ctl_query_ev_profile(mrc, 41, &seen, MRC_CTL_EV_PROFILE_EV_OP) == -1);
  CHECK(errno == E2BIG);
  CHECK(seen.ev_op.entry_count == 8);
  std::vector<mrc_ctl_ev_op_entry> array(8);
  seen.ev_op.entries = array.data();
  REQUIRE(mrc_ctl_query_ev_profile(mrc, 41, &seen,
                                   kState | MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_EV_OP |
                                       MRC_CTL_EV_PROFILE_EVENT_MASK |
                                       MRC_CTL_EV_PROFILE_MIN_ACTIVE) == 0);
  CHECK(seen.profile_state == MRC_CTL_PROFILE_ONLINE);
  CHECK(seen.ev_count == 8);
  CHECK(seen.ev_min_active == 1);
  CHECK(seen.ev_event_mask == 3);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(std::memcmp(&array[i].ev, &evs[i], sizeof evs[i]) == 0);
    CHECK(array[i].state == MRC_CTL_EV_GOOD);
  }

  // Two queue pairs use it.
  mrc_qp_attr own{};
  own.profile.ev_profile_id = 41;
  {
    const Pair x(c.program, c.mrc), y(c.program, c.mrc);
    x.connect(c.program, y, &own, MRC_QP_EV_PROFILE_ID);
    y.connect(c.program, x, &own, MRC_QP_EV_PROFILE_ID);
    own = {};
    REQUIRE(mrc_query_qp(x.qp, nullptr, 0, &own, 0, nullptr) == 0);
    CHECK(own.profile.ev_profile_id == 41);
    a.profile_state = MRC_CTL_PROFILE_OFFLINE;
    CHECK(mrc_ctl_modify_ev_profile(mrc, 41, &a, kState) == -1);
    CHECK(errno == EBUSY);
    // All of port 2 denied, while it is in use.
    std::vector<mrc_ctl_ev_op_entry> denied;
    for (const mrc_ctl_ev& ev : evs)
      if (ev.port == 2) {
        mrc_ctl_ev_op_entry entry{};
        entry.ev = ev;
        entry.state = MRC_CTL_EV_DENIED;
        entry.flags = MRC_CTL_EV_OP_F_ALL_COPIES;
        denied.push_back(entry);
      }
    a.ev_op = {MRC_CTL_EV_OP_MODIFY_EV_STATE, denied.data(), static_cast<int>(denied.size())};
    REQUIRE(mrc_ctl_modify_ev_profile(mrc, 41, &a, MRC_CTL_EV_PROFILE_EV_OP) == 0);
    ibv_sge sge = c.memory.sge(0, 1 << 18);
    ibv_send_wr request = verbs::write_request(1, sge, c.memory, 1 << 19);
    REQUIRE(x.post(request) == 0);
    CHECK(x.next().status == IBV_WC_SUCCESS);
    for (auto& entry : denied) entry.state = MRC_CTL_EV_GOOD;  // to be overwritten
    a.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_STATE;
    REQUIRE(mrc_ctl_query_ev_profile(mrc, 41, &a, MRC_CTL_EV_PROFILE_EV_OP) == 0);
    for (const auto& entry : denied) CHECK(entry.state == MRC_CTL_EV_DENIED);
    // An EV that is not there.
    denied[0].ev.val[0] ^= 0x55;
    CHECK(mrc_ctl_query_ev_profile(mrc, 41, &a, MRC_CTL_EV_PROFILE_EV_OP) == -1);
    CHECK(errno == ENOENT);
  }
  a.profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(mrc_ctl_modify_ev_profile(mrc, 41, &a, kState) == 0);
  a.profile_state = MRC_CTL_PROFILE_INIT;
  CHECK(mrc_ctl_modify_ev_profile(mrc, 41, &a, kState) == 0);
}

TEST_CASE("EV profiles: what is refused") {
  Program program;
  Mrc mrc(program);
  mrc_ctl_ev_profile_attr a{};
  const auto modify = [&](int mask) {
    errno = 0;
    return mrc_ctl_modify_ev_profile(mrc.context, 43, &a, mask) == 0 ? 0 : errno;
  };
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == EINVAL);
  a.ev_op.op = static_cast<mrc_ctl_ev_op>(9);
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  a.ev_fields_op.op = static_cast<mrc_ctl_ev_fields_op>(-1);
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == EINVAL);
  a.ev_mode = static_cast<mrc_ctl_ev_mode>(5);
  CHECK(modify(MRC_CTL_EV_PROFILE_MODE) == EINVAL);
  a.profile_state = static_cast<mrc_ctl_profile_state>(7);
  CHECK(modify(kState) == EINVAL);
  CHECK(modify(1 << 15) == EINVAL);
  a.profile_state = MRC_CTL_PROFILE_OFFLINE;
  a.ev_mode = MRC_CTL_EV_MODE_EXP;
  a.ev_count = 4;
  a.ev_fmt_profile_id = 77777;
  constexpr int kBasics =
      kState | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_FMT_ID;
  CHECK(modify(kBasics) == ENOENT);
  mrc_ctl_ev_op_entry entry{};
  entry.state = MRC_CTL_EV_ASSUMED_BAD;
  a.ev_op = {MRC_CTL_EV_OP_REPLACE_EV, &entry, 1};
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  entry.state = {};  // a replacement alone needs none
  a.ev_op.op = MRC_CTL_EV_OP_MODIFY_EV_STATE;
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  a.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
  entry.state = MRC_CTL_EV_GOOD;
  entry.flags = 2;
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  a.ev_op.entry_count = -5;
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  a.ev_op = {MRC_CTL_EV_OP_REPLACE_EV, nullptr, 1};
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  // The device's own.
  CHECK(mrc_ctl_modify_ev_profile(mrc.context, 0, &a, kState) == -1);
  CHECK(errno == EINVAL);
  mrc_ctl_ev_profile_attr seen{};
  CHECK(mrc_ctl_query_ev_profile(mrc.context, 0, &seen, kState | MRC_CTL_EV_PROFILE_MODE) == 0);
  CHECK(seen.profile_state == MRC_CTL_PROFILE_ONLINE);
  CHECK(seen.ev_mode == MRC_CTL_EV_MODE_AUTO);
  seen.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
  CHECK(mrc_ctl_query_ev_profile(mrc.context, 43, &seen, MRC_CTL_EV_PROFILE_EV_OP) == -1);
  CHECK(errno == EINVAL);
}

TEST_CASE("CC profiles: parameters, zeros that are not given, the library's own storage") {
  Program program;
  Mrc mrc(program);
  mrc_ctl_cc_nscc_cfg config{};
  mrc_ctl_cc_profile_attr a{};
  constexpr int kAlgorithm = MRC_CTL_CC_PROFILE_ALGORITHM, kConfig = MRC_CTL_CC_PROFILE_CONFIG;
  const auto modify = [&](int mask) {
    errno = 0;
    return mrc_ctl_modify_cc_profile(mrc.context, 6, &a, mask) == 0 ? 0 : errno;
  };
  a.profile_state = MRC_CTL_PROFILE_OFFLINE;
  a.algorithm = "bbr";
  CHECK(modify(kState | kAlgorithm) == EINVAL);
  CHECK(modify(kState) == EINVAL);  // no algorithm
  a.algorithm = "uet-1.0-nscc";
  CHECK(modify(kState | kAlgorithm) == 0);
  a.profile_state = MRC_CTL_PROFILE_ONLINE;
  config.eta = __builtin_nanf("");
  a.cc_config = &config;
  CHECK(modify(kState | kConfig) == EINVAL);
  config = {};
  config.target_delay = 20'000;
  config.gamma = 0.5f;
  CHECK(modify(kState | kConfig) == 0);
  mrc_ctl_cc_profile_attr seen{};
  REQUIRE(mrc_ctl_query_cc_profile(mrc.context, 6, &seen, kState | kAlgorithm | kConfig) == 0);
  CHECK(seen.profile_state == MRC_CTL_PROFILE_ONLINE);
  CHECK(std::string(seen.algorithm) == "uet-1.0-nscc");
  CHECK(seen.cc_config != &config);
  const auto* kept = static_cast<const mrc_ctl_cc_nscc_cfg*>(seen.cc_config);
  CHECK(kept->target_delay == 20'000);
  CHECK(kept->gamma == 0.5f);
  CHECK(kept->base_rtt == 0);
  {
    mrc_qp_attr own{};
    own.profile.cc_profile_id = 6;
    const Pair pair(program, mrc);
    pair.to_init(&own, MRC_QP_CC_PROFILE_ID);
    a.profile_state = MRC_CTL_PROFILE_OFFLINE;
    CHECK(modify(kState) == EBUSY);
    own.profile.cc_profile_id = 6666;  // there is none
    const Pair other(program, mrc);
    ibv_qp_attr init = verbs::init_attributes();
    CHECK(mrc_modify_qp(other.qp, &init, kInitMask, &own, MRC_QP_CC_PROFILE_ID) != 0);
    CHECK(other.state() == IBV_QPS_RESET);
    mrc_qp_attr refused{};
    REQUIRE(mrc_query_qp(other.qp, nullptr, 0, &refused, 0, nullptr) == 0);
    CHECK(refused.profile.cc_profile_id == 0);
    own.profile.cc_profile_id = 0;  // as if not given
    CHECK(mrc_modify_qp(other.qp, &init, kInitMask, &own,
                        MRC_QP_CC_PROFILE_ID | MRC_QP_EV_PROFILE_ID) == 0);
  }
  CHECK(modify(kState) == 0);
  a.algorithm = nullptr;  // none: off
  CHECK(modify(kAlgorithm) == 0);
  REQUIRE(mrc_ctl_query_cc_profile(mrc.context, 6, &seen, kAlgorithm) == 0);
  CHECK(seen.algorithm == nullptr);
  a.profile_state = MRC_CTL_PROFILE_INIT;
  CHECK(modify(kState) == 0);
  REQUIRE(mrc_ctl_query_cc_profile(mrc.context, 0, &seen, kState | kAlgorithm) == 0);
  CHECK(seen.profile_state == MRC_CTL_PROFILE_ONLINE);
}

TEST_CASE("a port that is disabled carries nothing, and queue pairs live on") {
  Connected c;
  mrc_context* mrc = c.mrc.context;
  mrc_ctl_port_attr port{};
  CHECK(mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
  CHECK(port.port_admin_state == MRC_CTL_PORT_ADMIN_ENABLED);
  for (const std::uint8_t none : {std::uint8_t{0}, std::uint8_t{3}, std::uint8_t{255}}) {
    CHECK(mrc_ctl_query_port(mrc, none, &port, MRC_CTL_PORT_ADMIN_STATE) == -1);
    CHECK(errno == EINVAL);
    CHECK(mrc_ctl_modify_port(mrc, none, &port, MRC_CTL_PORT_ADMIN_STATE) == -1);
  }
  port.port_admin_state = static_cast<mrc_ctl_port_admin_state>(2);
  CHECK(mrc_ctl_modify_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == -1);
  CHECK(errno == EINVAL);
  CHECK(mrc_ctl_modify_port(mrc, 1, &port, 2) == -1);

  const auto move = [&](int rounds) {
    ibv_sge sge = c.memory.sge(0, 1 << 16);
    for (int i = 0; i < rounds; ++i) {
      ibv_send_wr request = verbs::write_request(1, sge, c.memory, 1 << 19);
      REQUIRE(c.a.post(request) == 0);
      CHECK(c.a.next().status == IBV_WC_SUCCESS);
    }
  };
  move(3);
  for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{2}}) {
    port.port_admin_state = MRC_CTL_PORT_ADMIN_DISABLED;
    REQUIRE(mrc_ctl_modify_port(mrc, number, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
    mrc_async_event event{};
    REQUIRE(mrc_get_async_event(mrc, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_PORT_ERR);
    CHECK(event.element.port_num == number);
    mrc_ack_async_event(&event);
    ibv_port_attr verbs_port{};
    CHECK(ibv_query_port(c.program.context, 2, &verbs_port) == 0);
    CHECK(verbs_port.state == (number == 2 ? IBV_PORT_DOWN : IBV_PORT_ACTIVE));
    CHECK(ibv_query_port(c.program.context, 1, &verbs_port) == 0);
    CHECK(verbs_port.state == IBV_PORT_ACTIVE);  // the other plane is there
    move(5);
    port.port_admin_state = MRC_CTL_PORT_ADMIN_ENABLED;
    REQUIRE(mrc_ctl_modify_port(mrc, number, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
    REQUIRE(mrc_get_async_event(mrc, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_PORT_ACTIVE);
    CHECK(event.element.port_num == number);
  }
  move(3);
}

TEST_CASE("probes of paths, and port status, to hosts that nobody is connected to") {
  Connected c;
  mrc_context* mrc = c.mrc.context;
  const std::vector<mrc_ctl_ev> evs = own_evs(c);
  REQUIRE(!evs.empty());
  ibv_gid gid{};
  REQUIRE(ibv_query_gid(c.program.context, 1, 0, &gid) == 0);
  std::vector<mrc_ctl_ep_req> requests(evs.size());
  for (std::size_t i = 0; i < evs.size(); ++i) {
    requests[i].req_id = static_cast<std::uint16_t>(100 + i);
    requests[i].sgid = requests[i].dgid = gid;
    requests[i].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
    requests[i].req_ev = evs[i];
  }
  std::vector<mrc_ctl_ep_rsp> responses(evs.size());
  int count = -1;
  const int number = static_cast<int>(evs.size());
  constexpr std::uint32_t kSecond = 1'000'000'000;
  REQUIRE(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests.data(), number,
                                     4 * kSecond, responses.data(), &count) == 0);
  CHECK(count == number);
  std::set<int> ids;
  for (const mrc_ctl_ep_rsp& response : responses) {
    ids.insert(response.req_id);
    CHECK(response.rtt > 0);
    CHECK(response.adj_svc_time == 0);
    CHECK(response.port == evs.at(response.req_id - 100u).port);
  }
  CHECK(ids.size() == evs.size());

  requests[0].op.port_status_update.port_status = 0b110;
  REQUIRE(mrc_ctl_ep_batch_send_wait(mrc, 46, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, requests.data(), 1,
                                     4 * kSecond, responses.data(), &count) == 0);
  CHECK(count == 1);

  // What does not answer.
  mrc_ctl_ep_req silent = requests[0];
  silent.dgid.raw[15] = 99;  // 127.0.0.99
  CHECK(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &silent, 1, kSecond / 20,
                                   responses.data(), &count) == -1);
  CHECK(errno == ETIMEDOUT);
  CHECK(count == 0);

  const auto refused = [&](std::uint8_t tc, int type, mrc_ctl_ep_req* req, int n) {
    count = 77;
    errno = 0;
    CHECK(mrc_ctl_ep_batch_send_wait(mrc, tc, static_cast<mrc_ctl_ep_op_type>(type), req, n,
                                     kSecond, responses.data(), &count) == -1);
    CHECK(count == 0);
    return errno;
  };
  CHECK(refused(64, 0, requests.data(), 1) == EINVAL);
  CHECK(refused(0, 2, requests.data(), 1) == EINVAL);
  CHECK(refused(0, 0, nullptr, 1) == EINVAL);
  CHECK(refused(0, 0, requests.data(), -1) == EINVAL);
  requests[1].req_id = requests[0].req_id;
  CHECK(refused(0, 0, requests.data(), 2) == EINVAL);
  requests[1].req_id = 1;
  requests[0].sgid.raw[15] = 98;
  CHECK(refused(0, 0, requests.data(), 1) == EINVAL);
  requests[0].sgid = gid;
  requests[0].req_ev.port = 9;
  CHECK(refused(0, 0, requests.data(), 1) == EINVAL);
  CHECK(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, nullptr, 0, kSecond, nullptr,
                                   &count) == 0);
  CHECK(count == 0);
  CHECK(mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, nullptr, 0, kSecond, nullptr,
                                   nullptr) == -1);
}

TEST_CASE("an outage of a plane makes EV events, exactly counted when there is no room") {
  // The device of the tests may inject no faults; a disabled port at the peer does the same, but
  // the peer is this device. So: events of paths that nobody answers any more.
  Program program;
  Mrc mrc(program);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  CHECK(mrc_ctl_create_ev_event_cq(mrc.context, 0, nullptr, channel, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(mrc_ctl_create_ev_event_cq(mrc.context, 1 << 21, nullptr, channel, 0) == nullptr);
  CHECK(errno == EINVAL);
  mrc_cq* events = mrc_ctl_create_ev_event_cq(mrc.context, 8, &program, channel, 0);
  REQUIRE(events != nullptr);
  CHECK(mrc_req_notify_cq(events, 0) == 0);
  CHECK(mrc_req_notify_cq(events, 0) == 0);  // twice is once
  CHECK(mrc_destroy_comp_channel(channel) == EBUSY);
  CHECK(mrc_destroy_cq(events) == 0);
  CHECK(mrc_destroy_comp_channel(channel) == 0);
}

}  // namespace control_test
