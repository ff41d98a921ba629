// SPDX-License-Identifier: Apache-2.0
// Threads that are cancelled (pthread_cancel()): ibv_get_cq_event() and ibv_get_async_event() end
// them there; every other call does its work.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>

#include "support/cancelled.hpp"
#include "verbs/verbs_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::verbs;

namespace cancel_test {

/// Polls without a call that is a cancellation point. False if nothing came.
bool comes(ibv_cq* cq, ibv_wc& wc) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::sched_yield();
  }
  return true;
}

TEST_CASE("cancelling a thread: verbs calls do their work, and it ends later") {
  bool done = false;
  auto program = [&] {
    ::pthread_cancel(::pthread_self());  // from here on any cancellation point would end it
    {
      Linked c;
      ibv_wc wc{};
      ibv_sge sge = c.from.sge(0, 5000);
      ibv_send_wr request = c.request(IBV_WR_SEND, sge);
      ibv_ah_attr to{};
      to.is_global = to.port_num = 1;
      CHECK(ibv_query_gid(c.program.context, 1, 0, &to.grh.dgid) == 0);
      ibv_ah* handle = ibv_create_ah(c.program.pd, &to);
      CHECK(handle != nullptr);
      CHECK(ibv_destroy_ah(handle) == 0);
      CHECK(ibv_req_notify_cq(c.a.cq, 0) == 0);
      CHECK(post_receive(c.b.qp, 1, c.to.sge(0, 5000)) == 0);
      CHECK(post(c.a.qp, request) == 0);
      CHECK(comes(c.a.cq, wc));
      CHECK(comes(c.b.cq, wc));
      CHECK(c.arrived(0, 0, 5000));
      ibv_srq* srq = make_srq(c.program.pd, 4);
      CHECK(post_receive(srq, 1, c.to.sge(0, 16)) == 0);
      CHECK(ibv_destroy_srq(srq) == 0);
      // Requests of a queue pair in ERR complete by themselves.
      ibv_comp_channel* channel = ibv_create_comp_channel(c.program.context);
      {
        const Queues failed(c.program, IBV_QPT_RC, channel);
        ibv_qp_attr a{};
        a.qp_state = IBV_QPS_ERR;
        CHECK(ibv_modify_qp(failed.qp, &a, IBV_QP_STATE) == 0);
        CHECK(ibv_req_notify_cq(failed.cq, 0) == 0);
        CHECK(post_receive(failed.qp, 1) == 0);
        CHECK(comes(failed.cq, wc));
      }
      CHECK(ibv_destroy_comp_channel(channel) == 0);
    }  // closes the device, after those that linger
    ibv_device** list = ibv_get_device_list(nullptr);
    CHECK(ibv_get_device_guid(list[0]) != 0);
    ibv_free_device_list(list);
    done = true;
    ::pthread_testcancel();
  };
  CHECK(cancelled(program, [](::pthread_t) {}));
  CHECK(done);
}

TEST_CASE("a thread that waits for an event can be cancelled, and nothing is lost") {
  Linked c;
  ibv_comp_channel* channel = ibv_create_comp_channel(c.program.context);
  REQUIRE(channel != nullptr);
  {
    const Queues other(c.program, IBV_QPT_RC, channel);
    std::atomic<bool> waits{false};
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ibv_async_event event{};
    const auto cancel = [&](::pthread_t thread) {
      REQUIRE(eventually([&] { return waits.load(); }));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // most often it sleeps by then
      CHECK(::pthread_cancel(thread) == 0);
    };
    auto completion = [&] {
      waits = true;
      (void)ibv_get_cq_event(channel, &cq, &cq_context);
    };
    CHECK(cancelled(completion, cancel));
    waits = false;
    auto async = [&] {
      waits = true;
      (void)ibv_get_async_event(c.program.context, &event);
    };
    CHECK(cancelled(async, cancel));

    // Also if there is an event: it stays for others.
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_ERR;
    REQUIRE(ibv_modify_qp(other.qp, &a, IBV_QP_STATE) == 0);
    REQUIRE(ibv_req_notify_cq(other.cq, 0) == 0);
    REQUIRE(post_receive(other.qp, 1) == 0);
    auto late = [&] {
      ::pthread_cancel(::pthread_self());
      (void)ibv_get_cq_event(channel, &cq, &cq_context);
    };
    CHECK(cancelled(late, [](::pthread_t) {}));
    REQUIRE(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
    CHECK(cq == other.cq);
    ibv_ack_cq_events(cq, 1);
  }
  CHECK(ibv_destroy_comp_channel(channel) == 0);
}

}  // namespace cancel_test
