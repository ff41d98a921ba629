// SPDX-License-Identifier: Apache-2.0
// A program has its last message, destroys its queue pair and ends, while the acknowledgement is
// lost. Its peer must not take that for an error.
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <utility>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace linger_test {

/// What one program tells the other.
struct Name {
  std::uint32_t qpn, rkey;
  std::uint64_t address;
};

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() { REQUIRE(::pipe(ends.data()) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void tell(const Name& name) const {
    REQUIRE(::write(ends[1], &name, sizeof name) == sizeof name);
  }
  [[nodiscard]] Name hear() const {
    Name name{};
    REQUIRE(::read(ends[0], &name, sizeof name) == sizeof name);
    return name;
  }
};

volatile std::sig_atomic_t main_is_over = 0;

/// The program that receives one message, and ends; every second time without destroying anything.
/// A timer of its own still runs then, as perftest leaves one, and must not expire any more.
[[noreturn]] void receive_and_end(const Pipe& up, const Pipe& down, int round) {
  bool received = false;
  {
    Program program;
    const Memory memory(program);
    const Queues queues(program);
    up.tell({queues.qp->qp_num, memory.mr->rkey, memory.address()});
    queues.connect(down.hear().qpn);
    // More than come: what is left must not keep it from answering, nor its memory, which goes.
    for (std::uint64_t i = 0; i < 5; ++i)
      REQUIRE(post_receive(queues.qp, i, memory.sge(1024 * (i + 1), 512)) == 0);
    up.tell({});
    received = queues.next().status == IBV_WC_SUCCESS;
    if (round % 4 > 1) {
      ::signal(SIGALRM, [](int) {
        if (main_is_over) ::_exit(99);
      });
      const ::itimerval soon{{}, {0, 50'000}};
      ::setitimer(ITIMER_REAL, &soon, nullptr);
    }
    main_is_over = round % 2 == 1;
    if (round % 2 == 1) ::exit(received ? 0 : 1);
  }
  main_is_over = 1;
  ::exit(received ? 0 : 1);
}

/// Exit status of a sender that failed and did not run for longer than a quarter of the 200 ms for
/// which the other one answers.
constexpr int kStalled = 2;

/// The program that sends it. Of the packets that come back, three in ten are lost.
[[noreturn]] void send(const Pipe& up, const Pipe& down, int round) {
  ::setenv("MRC_FAULTS", "loss=0.3", 1);
  ::setenv("MRC_SEED", std::to_string(round + 1).c_str(), 1);
  using Clock = std::chrono::steady_clock;
  bool sent = false;
  Clock::duration stall{};
  {
    Program program;
    const Memory memory(program);
    const Queues queues(program);
    const Name peer = up.hear();
    down.tell({queues.qp->qp_num, 0, 0});
    queues.connect(peer.qpn);
    (void)up.hear();
    ibv_sge sge = memory.sge(0, 64);
    ibv_send_wr request = write_request(1, sge, memory, 0);
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.wr.rdma.remote_addr = peer.address;
    request.wr.rdma.rkey = peer.rkey;
    REQUIRE(post(queues.qp, request) == 0);
    ibv_wc done{};
    for (Clock::time_point last = Clock::now(); ibv_poll_cq(queues.cq, 1, &done) == 0;) {
      const Clock::time_point now = Clock::now();
      stall = std::max(stall, now - std::exchange(last, now));
    }
    sent = done.status == IBV_WC_SUCCESS;
  }
  ::exit(sent ? 0 : stall > std::chrono::milliseconds(50) ? kStalled : 1);
}

TEST_CASE("verbs linger: a program that ends after its last message leaves no error behind") {
  int stalled = 0;  // rounds that tell nothing, of which a busy machine has some
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const Pipe up, down;
    std::cout.flush();  // or each child would print it again
    const ::pid_t receiver = ::fork();
    REQUIRE(receiver >= 0);
    if (receiver == 0) receive_and_end(up, down, round);
    const ::pid_t sender = ::fork();
    REQUIRE(sender >= 0);
    if (sender == 0) send(up, down, round);
    int status = 0;
    REQUIRE(::waitpid(receiver, &status, 0) == receiver);
    CHECK(status == 0);
    REQUIRE(::waitpid(sender, &status, 0) == sender);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kStalled && ++stalled < 20)
      --round;
    else
      CHECK(status == 0);
  }
}

}  // namespace linger_test
