// SPDX-License-Identifier: Apache-2.0
// In a child made by fork() the parent's objects are dead, and the parent notices nothing.
#include <sys/wait.h>
#include <unistd.h>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

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
    // As with verbs: a queue pair in ERR flushes, or the call fails.
    const int posted = mrc_post_send(c.a.qp, &request, &bad);
    fails(posted == 0 || posted == EIO || posted == EINVAL, 10);
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
