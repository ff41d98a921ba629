// SPDX-License-Identifier: Apache-2.0
// In a child made by fork() the parent's objects are dead, and the parent notices nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace fork_test {

/// Each call on objects of the parent that does not fail with EIO; empty if all do.
std::string calls_that_work(Connected& c, mrc_qp_hint* hint, mrc_comp_channel* channel,
                            mrc_cq* events) {
  std::string which;
  const auto e = [&](const char* call, int result) {
    if (result != EIO || errno != EIO) which += std::string(call) + " ";
  };
  const auto a = [&](const char* call, int result) {
    if (result != -1 || errno != EIO) which += std::string(call) + " ";
  };
  const auto p = [&](const char* call, const void* result) {
    if (result != nullptr || errno != EIO) which += std::string(call) + " ";
  };
  mrc_context* mrc = c.mrc.context;
  ibv_sge sge = c.memory.sge(0, 8);
  ibv_send_wr request = verbs::write_request(1, sge, c.memory, 64);
  ibv_send_wr* bad = nullptr;
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  ibv_wc wc{};
  int number = 0, supported = 0;
  std::uint32_t qpn = 0;
  mrc_cq* cq = nullptr;
  void* cq_context = nullptr;
  mrc_device_attr device{};
  mrc_ctl_device_attr ctl{};
  mrc_qp_attr own{};
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  mrc_qp_init_attr initial{};
  mrc_qp_hint_attr hinted{};
  mrc_qp_hint_init_attr hint_wanted{};
  mrc_async_event event{};
  mrc_ctl_port_attr port{};
  mrc_ctl_ev_fmt_profile_attr format{};
  mrc_ctl_ev_profile_attr evs{};
  mrc_ctl_cc_profile_attr cc{};
  mrc_ctl_ep_req to{};
  mrc_ctl_ep_rsp from{};
  mrc_ctl_ev_event ev_event{};
  initial.send_cq = initial.recv_cq = c.a.cq;
  initial.pd = c.program.pd;
  a("mrc_query_device", mrc_query_device(c.program.context, &device, &supported));
  a("mrc_ctl_query_device", mrc_ctl_query_device(c.program.context, &ctl));
  p("mrc_create_context", mrc_create_context(c.program.context, nullptr));
  e("mrc_create_comp_channel", mrc_create_comp_channel(mrc, &channel));
  a("mrc_get_comp_channel_fd", mrc_get_comp_channel_fd(channel, &number));
  p("mrc_create_cq", mrc_create_cq(mrc, 4, nullptr, nullptr, 0));
  a("mrc_poll_cq", mrc_poll_cq(c.a.cq, 1, &wc));
  e("mrc_req_notify_cq", mrc_req_notify_cq(c.a.cq, 0));
  a("mrc_get_cq_event", mrc_get_cq_event(channel, &cq, &cq_context));
  p("mrc_create_qp_hint", mrc_create_qp_hint(mrc, &hint_wanted));
  a("mrc_query_qp_hint", mrc_query_qp_hint(hint, &hinted, MRC_QP_HINT_NUM_SEND_PEERS));
  a("mrc_modify_qp_hint", mrc_modify_qp_hint(hint, &hinted, MRC_QP_HINT_NUM_SEND_PEERS));
  p("mrc_create_qp", mrc_create_qp(mrc, &initial));
  e("mrc_query_qp", mrc_query_qp(c.a.qp, &attributes, 0, &own, 0, nullptr));
  attributes.qp_state = IBV_QPS_ERR;
  e("mrc_modify_qp", mrc_modify_qp(c.a.qp, &attributes, IBV_QP_STATE, nullptr, 0));
  a("mrc_get_qpn", mrc_get_qpn(c.a.qp, &qpn));
  e("mrc_post_recv", mrc_post_recv(c.a.qp, &receive, &bad_receive));
  e("mrc_post_send", mrc_post_send(c.a.qp, &request, &bad));
  a("mrc_get_async_event", mrc_get_async_event(mrc, &event));
  a("mrc_ctl_query_port", mrc_ctl_query_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE));
  a("mrc_ctl_modify_port", mrc_ctl_modify_port(mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE));
  a("mrc_ctl_query_ev_fmt_profile", mrc_ctl_query_ev_fmt_profile(mrc, 1, &format, kState));
  a("mrc_ctl_modify_ev_fmt_profile", mrc_ctl_modify_ev_fmt_profile(mrc, 1, &format, kState));
  for (const std::uint64_t id : {0, 1}) {
    a("mrc_ctl_query_ev_profile", mrc_ctl_query_ev_profile(mrc, id, &evs, kState));
    a("mrc_ctl_query_cc_profile", mrc_ctl_query_cc_profile(mrc, id, &cc, kState));
  }
  a("mrc_ctl_modify_ev_profile", mrc_ctl_modify_ev_profile(mrc, 1, &evs, kState));
  a("mrc_ctl_modify_cc_profile", mrc_ctl_modify_cc_profile(mrc, 1, &cc, kState));
  p("mrc_ctl_create_ev_event_cq", mrc_ctl_create_ev_event_cq(mrc, 1, nullptr, nullptr, 0));
  a("mrc_ctl_ep_batch_send_wait",
    mrc_ctl_ep_batch_send_wait(mrc, 0, MRC_CTL_EP_OP_EV_PROBE, &to, 1, 1, &from, &number));
  if (mrc_ctl_poll_ev_event(events, 1, &ev_event) != -EIO) which += "mrc_ctl_poll_ev_event ";
  e("mrc_destroy_qp", mrc_destroy_qp(c.a.qp));
  a("mrc_destroy_qp_hint", mrc_destroy_qp_hint(hint));
  e("mrc_destroy_cq", mrc_destroy_cq(events));
  e("mrc_destroy_comp_channel", mrc_destroy_comp_channel(channel));
  a("mrc_destroy_context", mrc_destroy_context(mrc));
  return which;
}

TEST_CASE("after fork(): every call on the parent's objects fails with EIO in the child") {
  Connected c;
  mrc_qp_hint_init_attr wanted{};
  mrc_qp_hint* hint = mrc_create_qp_hint(c.mrc.context, &wanted);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(c.mrc.context, &channel) == 0);
  mrc_cq* events = mrc_ctl_create_ev_event_cq(c.mrc.context, 1, nullptr, nullptr, 0);
  REQUIRE(events != nullptr);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::string which = calls_that_work(c, hint, channel, events);
    const bool told = ::write(ends[1], which.data(), which.size()) >= 0;
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  std::string which;
  char text[256];
  for (::ssize_t n = 0; (n = ::read(ends[0], text, sizeof text)) > 0;)
    which.append(text, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(which == "");
  CHECK(mrc_destroy_cq(events) == 0);
  CHECK(mrc_destroy_comp_channel(channel) == 0);
  CHECK(mrc_destroy_qp_hint(hint) == 0);
}

TEST_CASE("calls on the parent's objects fail in a child, which may open its own") {
  Connected c;
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto fails = [](bool holds, int code) {
      if (!holds) ::_exit(code);
    };
    ibv_sge sge = c.memory.sge(0, 8);
    ibv_send_wr request = verbs::write_request(1, sge, c.memory, 64);
    ibv_send_wr* bad = nullptr;
    fails(mrc_post_send(c.a.qp, &request, &bad) == EIO, 10);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RESET;
    fails(mrc_modify_qp(c.a.qp, &a, IBV_QP_STATE, nullptr, 0) == EIO, 11);
    fails(mrc_create_cq(c.mrc.context, 4, nullptr, nullptr, 0) == nullptr && errno == EIO, 12);
    mrc_ctl_port_attr port{MRC_CTL_PORT_ADMIN_DISABLED};
    fails(mrc_ctl_modify_port(c.mrc.context, 1, &port, MRC_CTL_PORT_ADMIN_STATE) == -1, 13);
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* context = ibv_open_device(list[0]);
    fails(context != nullptr, 14);
    mrc_context* mrc = mrc_create_context(context, nullptr);
    fails(mrc != nullptr, 15);
    mrc_cq* cq = mrc_create_cq(mrc, 4, nullptr, nullptr, 0);
    fails(cq != nullptr, 16);
    fails(mrc_destroy_cq(cq) == 0, 17);
    fails(mrc_destroy_context(mrc) == 0, 18);
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ibv_sge sge = c.memory.sge(0, 8);
  ibv_send_wr request = verbs::write_request(2, sge, c.memory, 64);
  REQUIRE(c.a.post(request) == 0);
  CHECK(c.a.next().status == IBV_WC_SUCCESS);
}

}  // namespace fork_test
