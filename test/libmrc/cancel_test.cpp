// SPDX-License-Identifier: Apache-2.0
// Threads that are cancelled (pthread_cancel()): waits for events end there; every other call does
// its work.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace cancel_test {

/// Runs `body` in a thread of its own. Whether it was cancelled.
template <class Body, class Meanwhile>
bool cancelled(Body& body, const Meanwhile& meanwhile) {
  ::pthread_t thread{};
  const auto run = [](void* data) -> void* {
    (*static_cast<Body*>(data))();
    return nullptr;
  };
  REQUIRE(::pthread_create(&thread, nullptr, run, &body) == 0);
  meanwhile(thread);
  void* result = nullptr;
  REQUIRE(::pthread_join(thread, &result) == 0);
  return result == PTHREAD_CANCELED;
}

TEST_CASE("cancelling a thread: calls do their work, and it ends later") {
  bool done = false;
  auto program = [&] {
    ::pthread_cancel(::pthread_self());  // from here on any cancellation point would end it
    {
      Connected c;
      ibv_wc wc{};
      ibv_sge sge = c.memory.sge(0, 5000);
      ibv_send_wr request = verbs::write_request(1, sge, c.memory, 8192);
      mrc_cq* events = mrc_ctl_create_ev_event_cq(c.mrc.context, 4, nullptr, nullptr, 0);
      CHECK(events != nullptr);
      CHECK(mrc_req_notify_cq(c.a.cq, 0) == 0);
      CHECK(c.a.post(request) == 0);
      const auto end = std::chrono::steady_clock::now() + kPatience;
      int got = 0;
      while ((got = mrc_poll_cq(c.a.cq, 1, &wc)) == 0 && std::chrono::steady_clock::now() < end)
        ::sched_yield();
      CHECK(got == 1);
      mrc_ctl_port_attr port{MRC_CTL_PORT_ADMIN_ENABLED};
      CHECK(mrc_ctl_modify_port(c.mrc.context, 2, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
      CHECK(mrc_destroy_cq(events) == 0);
    }
    done = true;
    ::pthread_testcancel();
  };
  CHECK(cancelled(program, [](::pthread_t) {}));
  CHECK(done);
}

TEST_CASE("a thread that waits for an event can be cancelled") {
  Program program;
  Mrc mrc(program);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  std::atomic<bool> waits{false};
  mrc_cq* cq = nullptr;
  void* cq_context = nullptr;
  mrc_async_event event{};
  const auto cancel = [&](::pthread_t thread) {
    REQUIRE(eventually([&] { return waits.load(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // most often it sleeps by then
    CHECK(::pthread_cancel(thread) == 0);
  };
  auto completion = [&] {
    waits = true;
    (void)mrc_get_cq_event(channel, &cq, &cq_context);
  };
  CHECK(cancelled(completion, cancel));
  waits = false;
  auto async = [&] {
    waits = true;
    (void)mrc_get_async_event(mrc.context, &event);
  };
  CHECK(cancelled(async, cancel));
  CHECK(mrc_destroy_comp_channel(channel) == 0);  // nobody waits any more
}

}  // namespace cancel_test
