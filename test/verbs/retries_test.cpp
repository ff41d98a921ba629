// SPDX-License-Identifier: Apache-2.0
// Messages for which no receive is posted: how often they are repeated, and what is left when that
// is over. Limits of shared receive queues.
#include <poll.h>
#include <stdlib.h>

#include <chrono>
#include <thread>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace retries_test {

/// Two connected queue pairs; `b` takes its receives from a shared queue if asked.
struct Unready {
  Program program;
  Memory from{program, 4096}, to{program, 4096};
  ibv_cq* cq[2]{};
  ibv_srq* srq = nullptr;
  ibv_qp* qp[2]{};

  Unready(std::uint8_t retries, std::uint8_t timer, bool shared) {
    if (shared) srq = make_srq(program.pd, 8);
    for (int i = 0; i < 2; ++i) {
      cq[i] = ibv_create_cq(program.context, 64, nullptr, nullptr, 0);
      REQUIRE(cq[i] != nullptr);
      qp[i] = make_qp(program.pd, cq[i], {8, 8, 1, 1, 0}, i == 1 ? srq : nullptr);
    }
    for (int i = 0; i < 2; ++i)
      connect_to(qp[i], qp[1 - i]->qp_num, [&](ibv_qp_attr& a) {
        a.min_rnr_timer = timer;
        a.rnr_retry = retries;
      });
  }
  ~Unready() {
    for (int i = 0; i < 2; ++i) {
      CHECK(ibv_destroy_qp(qp[i]) == 0);
      CHECK(ibv_destroy_cq(cq[i]) == 0);
    }
    if (srq != nullptr) CHECK(ibv_destroy_srq(srq) == 0);
  }
  Unready(const Unready&) = delete;
  Unready& operator=(const Unready&) = delete;

  [[nodiscard]] int receive(std::uint64_t id) {
    const ibv_sge sge = to.sge(0, 64);
    return srq != nullptr ? post_receive(srq, id, sge) : post_receive(qp[1], id, sge);
  }
  [[nodiscard]] int send(std::uint64_t id, ibv_wr_opcode opcode) {
    ibv_sge sge = from.sge(0, 64);
    ibv_send_wr request = write_request(id, sge, to, 1024);
    request.opcode = opcode;
    return post(qp[0], request);
  }
  [[nodiscard]] ibv_wc next(int side) const { return next_of(cq[side]); }
  [[nodiscard]] ibv_qp_state state(int side) const {
    ibv_qp_attr a{};
    ibv_qp_init_attr initial{};
    REQUIRE(ibv_query_qp(qp[side], &a, IBV_QP_STATE, &initial) == 0);
    return a.qp_state;
  }
  /// The next asynchronous event within so many milliseconds.
  [[nodiscard]] bool event(ibv_async_event& event, int milliseconds) const {
    pollfd ready{program.context->async_fd, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds) != 1) return false;
    REQUIRE(ibv_get_async_event(program.context, &event) == 0);
    ibv_ack_async_event(&event);
    return true;
  }
};

TEST_CASE("verbs retries: no receive, and as many waits as the program counts") {
  // IBTA 1.4, table 45: the timer 18 is 5.12 ms.
  constexpr std::uint8_t kTimer = 18;
  constexpr auto kWait = std::chrono::microseconds(5120);
  const Program open;  // one device for all, which closes but once
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
      CAPTURE(opcode);
      for (std::uint8_t retries = 0; retries < 7; ++retries) {
        CAPTURE(retries);
        Unready pair(retries, kTimer, shared);
        std::memset(pair.from.bytes.data(), 0x5A, pair.from.bytes.size());
        const auto start = std::chrono::steady_clock::now();
        REQUIRE(pair.send(1, IBV_WR_RDMA_WRITE) == 0);  // needs no receive
        REQUIRE(pair.send(2, opcode) == 0);
        REQUIRE(pair.send(3, IBV_WR_RDMA_WRITE) == 0);
        ibv_wc wc = pair.next(0);
        CHECK(wc.wr_id == 1);
        CHECK(wc.status == IBV_WC_SUCCESS);
        wc = pair.next(0);
        CHECK(wc.wr_id == 2);
        CHECK(wc.status == IBV_WC_RNR_RETRY_EXC_ERR);
        CHECK(std::chrono::steady_clock::now() - start >= retries * kWait);
        wc = pair.next(0);
        CHECK(wc.wr_id == 3);
        CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
        CHECK(pair.state(0) == IBV_QPS_ERR);
        // Who had no receive is not at fault: its queue pair stays, without completion.
        CHECK(pair.state(1) == IBV_QPS_RTS);
        ibv_wc none{};
        CHECK(ibv_poll_cq(pair.cq[1], 1, &none) == 0);
        if (opcode == IBV_WR_SEND)
          for (std::size_t i = 0; i < 64; ++i) REQUIRE(pair.to.bytes[i] == 0);
      }
    }
  }
}

TEST_CASE("verbs retries: seven is for ever, from a shared queue too") {
  // 0.16 ms; any smaller number of them is over long before the receive is posted.
  constexpr std::uint8_t kTimer = 8;
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    Unready pair(7, kTimer, shared);
    REQUIRE(pair.send(1, IBV_WR_SEND) == 0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
    ibv_wc wc{};
    while (std::chrono::steady_clock::now() < until) CHECK(ibv_poll_cq(pair.cq[0], 1, &wc) == 0);
    REQUIRE(pair.receive(5) == 0);
    wc = pair.next(1);
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == 5);
    CHECK(pair.next(0).status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("verbs retries: a shared queue that is full, and a limit that is reported once") {
  Unready pair(7, 8, true);
  for (std::uint64_t id = 0; id < 8; ++id) REQUIRE(pair.receive(id) == 0);
  CHECK(pair.receive(8) == ENOMEM);
  ibv_srq_attr attributes{};
  attributes.srq_limit = 9;  // more than it holds
  CHECK(ibv_modify_srq(pair.srq, &attributes, IBV_SRQ_LIMIT) == EINVAL);

  const auto limit = [&] {
    REQUIRE(ibv_query_srq(pair.srq, &attributes) == 0);
    return attributes.srq_limit;
  };
  const auto use_one = [&](std::uint64_t id) {
    REQUIRE(pair.send(id, IBV_WR_SEND) == 0);
    CHECK(pair.next(1).wr_id == id);
    CHECK(pair.next(0).status == IBV_WC_SUCCESS);
  };
  ibv_async_event event{};
  std::uint64_t id = 0;
  for (const std::uint32_t wanted : {7u, 4u}) {
    CAPTURE(wanted);
    attributes.srq_limit = wanted;
    REQUIRE(ibv_modify_srq(pair.srq, &attributes, IBV_SRQ_LIMIT) == 0);
    CHECK(limit() == wanted);
    while (8 - id > wanted) {  // as many left as the limit says are not too few
      use_one(id++);
      CHECK_FALSE(pair.event(event, 0));
    }
    use_one(id++);
    REQUIRE(pair.event(event, 30'000));
    CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
    CHECK(event.element.srq == pair.srq);
    CHECK(limit() == 0);  // disarmed
    use_one(id++);
    CHECK_FALSE(pair.event(event, 0));
  }
}

TEST_CASE("verbs retries: how long a silent peer has") {
  const char* const variable = "MRC_VERBS_MIN_TIMEOUT";
  // The program's own is 67 ms, eight times: it may take four times as long, in waits that double.
  for (const auto& [text, least] : {std::pair{"", std::chrono::milliseconds(1476)},
                                    {"2500ms", std::chrono::milliseconds(2500)}}) {
    ::setenv(variable, text, 1);
    Program program;
    ::unsetenv(variable);
    Memory from(program, 4096), to(program, 4096);
    const Queues left(program);
    ibv_sge sge = from.sge(0, 64);
    ibv_send_wr request = write_request(1, sge, to, 0);
    {
      const Queues gone(program);
      left.connect(gone.qp->qp_num);
      gone.connect(left.qp->qp_num);
      REQUIRE(post(left.qp, request) == 0);
      CHECK(left.next().status == IBV_WC_SUCCESS);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it answers for 200 ms
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(post(left.qp, request) == 0);
    CHECK(left.next().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(std::chrono::steady_clock::now() - start >= least);
  }
}

}  // namespace retries_test
