// SPDX-License-Identifier: Apache-2.0
// Completion channels and asynchronous events: descriptors, order, acknowledgements.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace events_test {

bool readable(int fd, int milliseconds) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, milliseconds) == 1;
}
void set_nonblocking(int fd) {
  REQUIRE(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}
constexpr int kLong = 30'000;  // milliseconds; only a hang gets there

/// A channel that goes after the completion queues that are made for it later.
struct Channel {
  ibv_comp_channel* opened;
  explicit Channel(const Program& program) : opened(ibv_create_comp_channel(program.context)) {
    REQUIRE(opened != nullptr);
  }
  ~Channel() { CHECK(ibv_destroy_comp_channel(opened) == 0); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
};

/// A channel with two connected queue pairs.
struct Watched {
  Program program;
  Memory memory{program};
  Channel owner{program};
  ibv_comp_channel* channel = owner.opened;
  Queues a{program, IBV_QPT_RC, channel}, b{program, IBV_QPT_RC, channel};

  Watched() {
    a.connect(b);
    b.connect(a);
  }
  /// A write with immediate from a to b.
  void send(bool solicited = false) {
    REQUIRE(post_receive(b.qp, 1) == 0);
    ibv_sge sge = memory.sge(0, 8);
    ibv_send_wr request = write_request(1, sge, memory, 64);
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = solicited ? IBV_SEND_SOLICITED : 0;
    REQUIRE(post(a.qp, request) == 0);
  }
};

TEST_CASE("verbs events: an armed queue, a descriptor, one event") {
  Watched w;
  set_nonblocking(w.channel->fd);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  errno = 0;
  CHECK(ibv_get_cq_event(w.channel, &cq, &context) == -1);
  CHECK(errno == EAGAIN);
  CHECK_FALSE(readable(w.channel->fd, 0));

  REQUIRE(ibv_req_notify_cq(w.b.cq, 0) == 0);
  w.send();
  REQUIRE(readable(w.channel->fd, kLong));
  REQUIRE(ibv_get_cq_event(w.channel, &cq, &context) == 0);
  CHECK(cq == w.b.cq);
  CHECK(context == &w.b);
  ibv_ack_cq_events(cq, 1);
  CHECK(w.b.next().opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  w.send();  // not armed any more
  (void)w.b.next();
  CHECK_FALSE(readable(w.channel->fd, 0));
}

TEST_CASE("verbs events: solicited ones only") {
  Watched w;
  REQUIRE(ibv_req_notify_cq(w.b.cq, 1) == 0);
  w.send(false);
  (void)w.b.next();
  CHECK_FALSE(readable(w.channel->fd, 0));
  w.send(true);
  CHECK(readable(w.channel->fd, kLong));
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(w.channel, &cq, &context) == 0);
  ibv_ack_cq_events(cq, 1);
  // An error counts as solicited, also one that is made at once.
  (void)w.b.next();
  REQUIRE(ibv_req_notify_cq(w.a.cq, 1) == 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  REQUIRE(ibv_modify_qp(w.a.qp, &attributes, IBV_QP_STATE) == 0);
  REQUIRE(post_receive(w.a.qp, 7) == 0);
  REQUIRE(readable(w.channel->fd, kLong));
  REQUIRE(ibv_get_cq_event(w.channel, &cq, &context) == 0);
  CHECK(cq == w.a.cq);
  ibv_ack_cq_events(cq, 1);
}

TEST_CASE("verbs events: a thread sleeps until there is one") {
  Watched w;
  REQUIRE(ibv_req_notify_cq(w.b.cq, 0) == 0);
  std::atomic<bool> woken{false};
  ibv_cq* cq = nullptr;
  std::thread sleeper([&] {
    void* context = nullptr;
    if (ibv_get_cq_event(w.channel, &cq, &context) == 0) woken = true;
  });
  w.send();
  sleeper.join();
  CHECK(woken.load());
  REQUIRE(cq == w.b.cq);
  ibv_ack_cq_events(cq, 1);
}

TEST_CASE("verbs events: a queue waits for its acknowledgements before it goes") {
  Program program;
  ibv_comp_channel* channel = ibv_create_comp_channel(program.context);
  ibv_cq* cq = ibv_create_cq(program.context, 4, nullptr, channel, 0);
  {
    const Queues other(program);
    ibv_qp* qp = make_qp(program.pd, cq, {1, 1, 1, 1, 0});
    ibv_qp_attr a = init_attributes();
    REQUIRE(ibv_modify_qp(qp, &a, kInitMask) == 0);
    REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
    REQUIRE(post_receive(qp, 1) == 0);
    a.qp_state = IBV_QPS_ERR;
    REQUIRE(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
    ibv_cq* found = nullptr;
    void* context = nullptr;
    REQUIRE(ibv_get_cq_event(channel, &found, &context) == 0);
    REQUIRE(ibv_destroy_qp(qp) == 0);
  }
  std::atomic<bool> gone{false};
  std::thread destroyer([&] {
    CHECK(ibv_destroy_cq(cq) == 0);
    gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(gone.load());
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
  CHECK(gone.load());
  CHECK(ibv_destroy_comp_channel(channel) == 0);
}

TEST_CASE("verbs events: an access error is told to the context that owns the queue pair") {
  Watched w;
  const Program stranger;
  set_nonblocking(w.program.context->async_fd);
  set_nonblocking(stranger.context->async_fd);
  ibv_async_event event{};
  errno = 0;
  CHECK(ibv_get_async_event(w.program.context, &event) == -1);
  CHECK(errno == EAGAIN);

  ibv_sge sge = w.memory.sge(0, 8);
  ibv_send_wr request = write_request(1, sge, w.memory, 0);
  request.wr.rdma.rkey ^= 0x10000;
  REQUIRE(post(w.a.qp, request) == 0);
  const ibv_wc wc = w.a.next();
  CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
  CHECK(wc.vendor_err != 0);
  REQUIRE(readable(w.program.context->async_fd, kLong));
  CHECK(ibv_get_async_event(stranger.context, &event) == -1);
  REQUIRE(ibv_get_async_event(w.program.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(event.element.qp == w.b.qp);
  CHECK(w.b.qp->state == IBV_QPS_ERR);
  ibv_ack_async_event(&event);
  // The requester has its completion, and no event.
  CHECK(ibv_get_async_event(w.program.context, &event) == -1);
}

}  // namespace events_test
