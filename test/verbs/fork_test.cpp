// SPDX-License-Identifier: Apache-2.0
// A program forks while its device is open, and threads with it. Not with sanitizers, which know
// forks of single threads only.
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

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
    ibv_sge sge{};
    ibv_send_wr request{};
    request.sg_list = &sge;
    ibv_send_wr* bad = nullptr;
    const bool refused = ibv_post_send(queues.qp, &request, &bad) != 0 && bad == &request;
    ::_exit(own != nullptr && cq != nullptr && refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(ibv_fork_init() == 0);
  CHECK(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
}
