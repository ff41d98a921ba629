// SPDX-License-Identifier: Apache-2.0
// Threads that are cancelled (pthread_cancel()): waits for events end there; every other call does
// its work.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "libmrc/mrc_rig.hpp"
#include "support/cancelled.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace cancel_test {

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

/// Calls something when it goes, as programs clean up where a thread is cancelled.
template <class F>
struct CleanUp {
  F act;
  ~CleanUp() { act(); }
};
template <class F>
CleanUp(F) -> CleanUp<F>;

TEST_CASE("a thread that was cancelled in a wait may destroy what it waited for, or wait again") {
  Program program;
  mrc_context* context = mrc_create_context(program.context, nullptr);
  REQUIRE(context != nullptr);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(context, &channel) == 0);
  int fd = -1;
  REQUIRE(mrc_get_comp_channel_fd(channel, &fd) == 0);
  mrc_cq* cq = nullptr;
  void* cq_context = nullptr;
  mrc_async_event event{};
  int waited = 0, destroyed = -1;
  auto completion = [&] {
    const CleanUp clean_up{[&] {
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
      waited = mrc_get_cq_event(channel, &cq, &cq_context);
      destroyed = mrc_destroy_comp_channel(channel);
    }};
    ::pthread_cancel(::pthread_self());
    (void)mrc_get_cq_event(channel, &cq, &cq_context);
  };
  CHECK(cancelled(completion, [](::pthread_t) {}));
  CHECK(waited == -1);
  CHECK(destroyed == 0);
  destroyed = -1;
  auto async = [&] {
    const CleanUp clean_up{[&] { destroyed = mrc_destroy_context(context); }};
    ::pthread_cancel(::pthread_self());
    (void)mrc_get_async_event(context, &event);
  };
  CHECK(cancelled(async, [](::pthread_t) {}));
  CHECK(destroyed == 0);
}

}  // namespace cancel_test
