// SPDX-License-Identifier: Apache-2.0
// Errors that the headers document and no other test of libMRC makes.
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace errors_test {

/// Calls `waiting` in a thread, and interrupts it until it returns. Its result and errno.
template <class Call>
std::pair<int, int> interrupted(const Call& waiting) {
  using Action = struct sigaction;
  Action quiet{}, before{};
  quiet.sa_handler = [](int) {};  // without SA_RESTART
  REQUIRE(::sigaction(SIGUSR1, &quiet, &before) == 0);
  std::pair<int, int> result{0, 0};
  std::atomic<bool> returned{false};
  std::thread thread([&] {
    const int status = waiting();
    result = {status, errno};
    returned = true;
  });
  REQUIRE(eventually([&] {
    ::pthread_kill(thread.native_handle(), SIGUSR1);
    return returned.load();
  }));
  thread.join();
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
  return result;
}

/// 0, or errno.
int errno_of(int status) {
  return status == 0 ? 0 : errno;
}

TEST_CASE("waiting for events ends with EINTR") {
  Program program;
  Mrc mrc(program);
  mrc_async_event event{};
  CHECK(interrupted([&] { return mrc_get_async_event(mrc.context, &event); }) ==
        std::pair{-1, EINTR});
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  mrc_cq* cq = nullptr;
  void* cq_context = nullptr;
  CHECK(interrupted([&] { return mrc_get_cq_event(channel, &cq, &cq_context); }) ==
        std::pair{-1, EINTR});
  CHECK(mrc_destroy_comp_channel(channel) == 0);
}

TEST_CASE("destroying a completion queue waits until its events are acknowledged") {
  Program program;
  Mrc mrc(program);
  Memory memory(program);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  mrc_cq* queue = nullptr;
  {
    Pair a(program, mrc, channel), b(program, mrc);
    a.connect(program, b);
    b.connect(program, a);
    REQUIRE(mrc_req_notify_cq(a.cq, 0) == 0);
    ibv_sge sge = memory.sge(0, 64);
    ibv_send_wr request = verbs::write_request(1, sge, memory, 4096);
    REQUIRE(a.post(request) == 0);
    void* cq_context = nullptr;
    REQUIRE(mrc_get_cq_event(channel, &queue, &cq_context) == 0);
    a.cq = nullptr;  // destroyed below
  }
  std::atomic<bool> destroyed{false};
  std::thread waiting([&] {
    const int error = mrc_destroy_cq(queue);
    destroyed = true;
    CHECK(error == 0);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(destroyed.load());
  mrc_ack_cq_events(queue, 1);
  waiting.join();
  CHECK(mrc_destroy_comp_channel(channel) == 0);
}

TEST_CASE("more hints than there may be are ENOMEM") {
  Program program;
  mrc_context* context = mrc_create_context(program.context, nullptr);
  REQUIRE(context != nullptr);
  mrc_device_attr device{};
  int supported = 0;
  REQUIRE(mrc_query_device(program.context, &device, &supported) == 0);
  mrc_qp_hint_init_attr wanted{};
  std::uint32_t made = 0;
  errno = 0;
  while (made <= device.qp_attr.max_qp_hint && mrc_create_qp_hint(context, &wanted) != nullptr)
    ++made;
  CHECK(made == device.qp_attr.max_qp_hint);
  CHECK(errno == ENOMEM);
  CHECK(mrc_destroy_context(context) == 0);  // with all of them
}

TEST_CASE("posting: the state, keys, a full queue of receives") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 64);
  ibv_send_wr request = verbs::write_request(1, sge, c.memory, 4096);
  {
    const Pair early(c.program, c.mrc);
    CHECK(early.post(request) == EINVAL);  // RESET
    CHECK(early.post_receive(1) == EINVAL);
    early.to_init();
    CHECK(early.post(request) == EINVAL);
    CHECK(early.post_receive(1) == 0);
  }
  sge.lkey ^= 0x5A5A5A;
  CHECK(c.a.post(request) == EINVAL);
  CHECK(errno == EINVAL);
  sge = c.memory.sge(0, 64);
  sge.addr -= 8;  // begins before the region
  CHECK(c.a.post(request) == EINVAL);

  int posted = 0;
  while (posted < 1000 && c.b.post_receive(7) == 0) ++posted;
  CHECK(posted == 64);  // as many as were asked for
  ibv_recv_wr receive{}, *bad = nullptr;
  CHECK(mrc_post_recv(c.b.qp, &receive, &bad) == ENOMEM);
  CHECK(bad == &receive);
  CHECK(c.a.state() == IBV_QPS_RTS);
}

TEST_CASE("objects of one context are not taken by another, profiles that nobody made neither") {
  Connected c;
  Mrc other(c.program);
  mrc_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = c.a.cq;
  wanted.pd = c.program.pd;
  CHECK(mrc_create_qp(other.context, &wanted) == nullptr);
  CHECK(errno == EINVAL);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(other.context, &channel) == 0);
  CHECK(mrc_create_cq(c.mrc.context, 1, nullptr, channel, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(mrc_ctl_create_ev_event_cq(c.mrc.context, 1, nullptr, channel, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(mrc_destroy_comp_channel(channel) == 0);

  const Pair pair(c.program, c.mrc);
  for (const int bit : {MRC_QP_EV_PROFILE_ID, MRC_QP_CC_PROFILE_ID}) {
    CAPTURE(bit);
    mrc_qp_attr own{};
    own.profile = {4711, 4711};
    ibv_qp_attr a = verbs::init_attributes();
    CHECK(mrc_modify_qp(pair.qp, &a, kInitMask, &own, bit) == ENOENT);
    CHECK(errno == ENOENT);
  }
  CHECK(pair.state() == IBV_QPS_RESET);
}

TEST_CASE("more profiles than there may be are E2BIG, of each kind") {
  Program program;
  Mrc mrc(program);
  mrc_ctl_device_attr device{};
  REQUIRE(mrc_ctl_query_device(program.context, &device) == 0);
  const auto fill = [&](std::uint32_t most, const auto& to) {
    for (std::uint64_t id = 1; id <= most; ++id)
      REQUIRE(errno_of(to(id, MRC_CTL_PROFILE_OFFLINE)) == 0);
    CHECK(errno_of(to(most + 1, MRC_CTL_PROFILE_OFFLINE)) == E2BIG);
    CHECK(errno_of(to(1, MRC_CTL_PROFILE_INIT)) == 0);
    CHECK(errno_of(to(most + 1, MRC_CTL_PROFILE_OFFLINE)) == 0);  // there is room again
    CHECK(errno_of(to(most + 1, MRC_CTL_PROFILE_INIT)) == 0);
    for (std::uint64_t id = 2; id <= most; ++id)
      REQUIRE(errno_of(to(id, MRC_CTL_PROFILE_INIT)) == 0);
  };
  fill(device.ev.ev_max_fmt_profiles, [&](std::uint64_t id, mrc_ctl_profile_state state) {
    mrc_ctl_ev_fmt_profile_attr a{};
    a.profile_state = state;
    a.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
    const int with_mode = state == MRC_CTL_PROFILE_OFFLINE ? MRC_CTL_EV_FMT_PROFILE_MODE : 0;
    return mrc_ctl_modify_ev_fmt_profile(mrc.context, id, &a, kState | with_mode);
  });
  fill(device.ev.ev_max_profiles, [&](std::uint64_t id, mrc_ctl_profile_state state) {
    mrc_ctl_ev_profile_attr a{};
    a.profile_state = state;
    a.ev_mode = MRC_CTL_EV_MODE_AUTO;
    a.ev_count = 1;
    const int with_mode =
        state == MRC_CTL_PROFILE_OFFLINE ? MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_COUNT : 0;
    return mrc_ctl_modify_ev_profile(mrc.context, id, &a, kState | with_mode);
  });
  fill(device.cc.cc_max_profiles, [&](std::uint64_t id, mrc_ctl_profile_state state) {
    mrc_ctl_cc_profile_attr a{};
    a.profile_state = state;
    a.algorithm = "fixed";
    const int with_algorithm = state == MRC_CTL_PROFILE_OFFLINE ? MRC_CTL_CC_PROFILE_ALGORITHM : 0;
    return mrc_ctl_modify_cc_profile(mrc.context, id, &a, kState | with_algorithm);
  });
}

TEST_CASE("EV profiles: sizes, room, formats in use and formats that the planes can't send") {
  Program program;
  Mrc mrc(program);
  mrc_ctl_device_attr device{};
  REQUIRE(mrc_ctl_query_device(program.context, &device) == 0);
  mrc_ctl_ev_fmt_field field{16};
  const auto make_format = [&](std::uint64_t id, mrc_ctl_ev_fmt_mode mode) {
    mrc_ctl_ev_fmt_profile_attr a{};
    a.profile_state = MRC_CTL_PROFILE_OFFLINE;
    a.ev_fmt_mode = mode;
    a.ev_fmt_op = {MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, &field, 1};
    const int mask = kState | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP;
    return errno_of(mrc_ctl_modify_ev_fmt_profile(mrc.context, id, &a, mask));
  };
  REQUIRE(make_format(30, MRC_CTL_EV_FMT_MODE_SRV6) == 0);  // EV profiles can't use it: below
  REQUIRE(make_format(31, MRC_CTL_EV_FMT_MODE_UDP) == 0);
  mrc_ctl_ev_fmt_profile_attr format{};
  format.profile_state = MRC_CTL_PROFILE_ONLINE;
  for (const std::uint64_t id : {30, 31})
    REQUIRE(mrc_ctl_modify_ev_fmt_profile(mrc.context, id, &format, kState) == 0);

  mrc_ctl_ev_profile_attr own{};  // the first of the device's own EVs
  std::array<mrc_ctl_ev_op_entry, 8> entries{};
  own.ev_op = {MRC_CTL_EV_OP_QUERY_EV_ARRAY, entries.data(), 8};
  REQUIRE(mrc_ctl_query_ev_profile(mrc.context, 0, &own, MRC_CTL_EV_PROFILE_EV_OP) == 0);
  mrc_ctl_ev_op_entry entry{};
  entry.ev_new = entries[0].ev;
  entry.state = MRC_CTL_EV_GOOD;

  mrc_ctl_ev_profile_attr a{};
  const auto modify = [&](int mask) {
    return errno_of(mrc_ctl_modify_ev_profile(mrc.context, 50, &a, mask));
  };
  a.profile_state = MRC_CTL_PROFILE_OFFLINE;
  a.ev_mode = MRC_CTL_EV_MODE_EXP;
  a.ev_fmt_profile_id = 31;
  a.ev_min_active = 1;
  constexpr int kBasics = kState | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                          MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                          MRC_CTL_EV_PROFILE_EVENT_MASK;
  a.ev_count = device.ev.ev_max_count_profile + 1;
  CHECK(modify(kBasics) == E2BIG);
  a.ev_count = 1;
  REQUIRE(modify(kBasics) == 0);
  CHECK(modify(kState) == EINVAL);  // it is OFFLINE
  a.profile_state = MRC_CTL_PROFILE_ONLINE;
  a.ev_op = {MRC_CTL_EV_OP_REPLACE_EV, &entry, 1};
  entry.ev_new.port = 0;
  CHECK(modify(kState | MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  entry.ev_new.port = 77;
  CHECK(modify(kState | MRC_CTL_EV_PROFILE_EV_OP) == EINVAL);
  entry.ev_new = entries[0].ev;
  a.ev_fmt_profile_id = 30;
  CHECK(modify(kState | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_EV_OP) == ENOTSUP);
  entry.ev = entries[1].ev;  // which is not in the array
  CHECK(modify(kState | MRC_CTL_EV_PROFILE_EV_OP) == ENOENT);
  entry.ev = MRC_CTL_EV_UNPOPULATED;
  REQUIRE(modify(kState | MRC_CTL_EV_PROFILE_EV_OP) == 0);

  format.profile_state = MRC_CTL_PROFILE_OFFLINE;
  CHECK(errno_of(mrc_ctl_modify_ev_fmt_profile(mrc.context, 31, &format, kState)) == EBUSY);
  for (const auto state : {MRC_CTL_PROFILE_OFFLINE, MRC_CTL_PROFILE_INIT}) {
    a.profile_state = state;
    REQUIRE(modify(kState) == 0);
  }

  // Fields of a generated profile: room for too few.
  mrc_ctl_ev_field generated{16, 0, 0, 1, 0xFFFF};
  a = {};
  a.profile_state = MRC_CTL_PROFILE_OFFLINE;
  a.ev_mode = MRC_CTL_EV_MODE_GEN;
  a.ev_fmt_profile_id = 31;
  a.ev_count = 2;
  a.ev_fields_op = {MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, &generated, 1};
  REQUIRE(modify(kBasics | MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0);
  mrc_ctl_ev_profile_attr seen{};
  seen.ev_fields_op = {MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS, nullptr, 0};
  CHECK(errno_of(mrc_ctl_query_ev_profile(mrc.context, 50, &seen,
                                          MRC_CTL_EV_PROFILE_EV_FIELDS_OP)) == E2BIG);
  CHECK(seen.ev_fields_op.field_count == 1);
  generated.min_val = 2;  // above the largest
  CHECK(modify(MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == EINVAL);
}

TEST_CASE("requests to endpoints: an EV that the planes can't send is ENOTSUP") {
  Connected c;
  mrc_ctl_ep_req request{};
  REQUIRE(ibv_query_gid(c.program.context, 1, 0, &request.sgid) == 0);
  request.dgid = request.sgid;
  request.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6;
  request.req_ev.port = 1;
  request.req_ev.val[15] = 1;
  mrc_ctl_ep_rsp response{};
  int count = 7;
  CHECK(errno_of(mrc_ctl_ep_batch_send_wait(c.mrc.context, 0, MRC_CTL_EP_OP_EV_PROBE, &request, 1,
                                            1'000'000, &response, &count)) == ENOTSUP);
  CHECK(count == 0);
}

}  // namespace errors_test
