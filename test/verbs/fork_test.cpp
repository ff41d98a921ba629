// SPDX-License-Identifier: Apache-2.0
// A program forks while its device is open, and threads with it. Not with sanitizers, which know
// forks of single threads only.
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace {

/// The number of the first call on the parent's objects that does not fail with EIO; 0 if all do.
int first_that_works(Program& program, const Queues& queues) {
  int number = 0, first = 0;
  const auto error = [&](int result) {
    ++number;
    if (result != EIO && first == 0) first = number;
  };
  const auto null = [&](const void* result) { error(result == nullptr ? errno : 0); };
  ibv_sge sge{};
  ibv_send_wr request{};
  request.sg_list = &sge;
  ibv_send_wr* bad = nullptr;
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  ibv_qp_attr attributes = init_attributes();
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queues.cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {1, 1, 1, 1, 0};
  std::array<std::uint8_t, 64> memory;
  error(ibv_post_send(queues.qp, &request, &bad));
  error(bad == &request ? EIO : 0);
  error(ibv_post_recv(queues.qp, &receive, &bad_receive));
  error(bad_receive == &receive ? EIO : 0);
  error(ibv_req_notify_cq(queues.cq, 0));
  error(ibv_modify_qp(queues.qp, &attributes, kInitMask));
  errno = 0;
  null(ibv_create_cq(program.context, 4, nullptr, nullptr, 0));
  errno = 0;
  null(ibv_create_qp(program.pd, &wanted));
  errno = 0;
  null(ibv_reg_mr(program.pd, memory.data(), memory.size(), kAllAccess));
  errno = 0;
  null(ibv_alloc_pd(program.context));
  return first;
}

}  // namespace

TEST_CASE("verbs fork: a child opens a device of its own") {
  Program program;
  const Queues queues(program);
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* own = ibv_open_device(list[0]);
    ibv_cq* cq = own == nullptr ? nullptr : ibv_create_cq(own, 4, nullptr, nullptr, 0);
    // The parent's objects are dead here, and do no harm.
    ::_exit(own != nullptr && cq != nullptr ? first_that_works(program, queues) : 99);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(ibv_fork_init() == 0);
  CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
}
