// SPDX-License-Identifier: Apache-2.0
// What programs should not do: use objects that were destroyed, count SGEs that are not there,
// destroy a context while a thread waits.
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace misuse_test {

/// What a call returned, and errno.
using Outcome = std::pair<int, int>;
Outcome outcome(int result) {
  return {result, errno};
}

TEST_CASE("objects that were destroyed: calls on the data path are refused, too") {
  Program program;
  Mrc mrc(program);
  Memory memory(program);
  mrc_cq* cq = nullptr;
  mrc_qp* qp = nullptr;
  mrc_cq* events = mrc_ctl_create_ev_event_cq(mrc.context, 1, nullptr, nullptr, 0);
  {
    const Pair a(program, mrc), b(program, mrc);
    a.connect(program, b);
    b.connect(program, a);
    cq = a.cq;
    qp = a.qp;
  }
  REQUIRE(mrc_destroy_cq(events) == 0);
  ibv_sge sge = memory.sge(0, 64);
  ibv_send_wr request = verbs::write_request(1, sge, memory, 4096);
  ibv_send_wr* bad = nullptr;
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  ibv_wc wc{};
  mrc_ctl_ev_event event{};
  CHECK(outcome(mrc_post_send(qp, &request, &bad)) == Outcome{EINVAL, EINVAL});
  CHECK(outcome(mrc_post_recv(qp, &receive, &bad_receive)) == Outcome{EINVAL, EINVAL});
  CHECK(outcome(mrc_poll_cq(cq, 1, &wc)) == Outcome{-1, EINVAL});
  CHECK(outcome(mrc_req_notify_cq(cq, 0)) == Outcome{EINVAL, EINVAL});
  CHECK(mrc_ctl_poll_ev_event(events, 1, &event) == -EINVAL);
  CHECK(outcome(mrc_destroy_qp(qp)) == Outcome{EINVAL, EINVAL});
  mrc_ack_cq_events(cq, 1);  // of nothing
  mrc_async_event old{};
  old.event_type = IBV_EVENT_QP_FATAL;
  old.element.qp = qp;
  mrc_ack_async_event(&old);

  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  REQUIRE(mrc_destroy_comp_channel(channel) == 0);
  void* cq_context = nullptr;
  CHECK(outcome(mrc_get_cq_event(channel, &cq, &cq_context)) == Outcome{-1, EINVAL});
}

TEST_CASE("the memory of objects that were destroyed serves later ones") {
  Program program;
  Mrc mrc(program);
  mrc_cq* first = mrc_create_cq(mrc.context, 4, nullptr, nullptr, 0);
  REQUIRE(mrc_destroy_cq(first) == 0);
  mrc_cq* second = mrc_create_cq(mrc.context, 4, nullptr, nullptr, 0);
  CHECK(first == second);
  ibv_wc wc{};
  CHECK(mrc_poll_cq(second, 1, &wc) == 0);
  CHECK(mrc_destroy_cq(second) == 0);
}

TEST_CASE("requests without the list of SGEs that they count are refused") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 64);
  ibv_send_wr request = verbs::write_request(1, sge, c.memory, 4096);
  request.sg_list = nullptr;
  ibv_recv_wr receive{};
  for (const int count : {1, -1}) {
    CAPTURE(count);
    request.num_sge = receive.num_sge = count;
    for (const unsigned more : {0u, unsigned{IBV_SEND_INLINE}}) {
      request.send_flags = IBV_SEND_SIGNALED | more;
      ibv_send_wr* bad = nullptr;
      CHECK(mrc_post_send(c.a.qp, &request, &bad) == EINVAL);
      CHECK(bad == &request);
    }
    ibv_recv_wr* bad = nullptr;
    CHECK(mrc_post_recv(c.b.qp, &receive, &bad) == EINVAL);
    CHECK(bad == &receive);
  }
  request.num_sge = receive.num_sge = 0;
  request.send_flags = IBV_SEND_SIGNALED;
  CHECK(c.a.post(request) == 0);
  CHECK(c.a.next().status == IBV_WC_SUCCESS);
}

/// Calls `waiting` in a thread, then `destroy` here. What the thread's call returned.
template <class Call, class Destroy>
Outcome ended(const Call& waiting, const Destroy& destroy) {
  Outcome result{0, 0};
  std::atomic<bool> returned{false};
  std::thread thread([&] {
    const int status = waiting();
    result = outcome(status);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most often it waits by then
  destroy();
  REQUIRE(eventually([&] { return returned.load(); }));
  thread.join();
  return result;
}

TEST_CASE("waits for events end when what they are of is destroyed") {
  Program program;
  Mrc mrc(program);
  mrc_async_event event{};
  mrc_cq* cq = nullptr;
  void* cq_context = nullptr;
  mrc_comp_channel* channel = nullptr;
  const auto async = [&] { return mrc_get_async_event(mrc.context, &event); };
  const auto completion = [&] { return mrc_get_cq_event(channel, &cq, &cq_context); };

  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  CHECK(ended(completion, [&] { CHECK(mrc_destroy_comp_channel(channel) == 0); }) ==
        Outcome{-1, EINVAL});
  CHECK(ended(async, [&] { CHECK(mrc_destroy_context(mrc.context) == 0); }) == Outcome{-1, EINVAL});

  // With the channel that is left to it.
  mrc.context = mrc_create_context(program.context, nullptr);
  REQUIRE(mrc.context != nullptr);
  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  CHECK(ended(completion, [&] { CHECK(mrc_destroy_context(mrc.context) == 0); }) ==
        Outcome{-1, EINVAL});
  mrc.context = nullptr;
}

}  // namespace misuse_test
