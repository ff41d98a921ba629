// SPDX-License-Identifier: Apache-2.0
// Thousands of queue pairs, and threads that share a completion queue.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>

#include "support/brief.hpp"
#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace scale_test {

constexpr int kPairs = mrc::test::kBrief ? 150 : 1000, kPerThread = mrc::test::kBrief ? 1000 : 5000;

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

TEST_CASE("verbs scale: thousands of queue pairs on one completion queue and one receive queue") {
  // Thousands of queue pairs take a second of the processor, and a busy machine has 5 % for it.
  constexpr auto kLongPatience = 6 * kPatience;
  ::setenv("MRC_CONNECT_TIMEOUT", "180s", 1);
  Program program;
  ::unsetenv("MRC_CONNECT_TIMEOUT");
  const std::ptrdiff_t before = open_descriptors();
  {
    Memory from(program), to(program);
    ibv_cq* cq = ibv_create_cq(program.context, 8 * kPairs, nullptr, nullptr, 0);
    REQUIRE(cq != nullptr);
    ibv_srq* srq = make_srq(program.pd, 2 * kPairs);
    std::vector<ibv_qp*> qps(2 * kPairs);
    for (ibv_qp*& qp : qps) qp = make_qp(program.pd, cq, {4, 0, 1, 0, 0}, srq);
    for (std::size_t i = 0; i < qps.size(); ++i)
      connect_to(qps[i], qps[i ^ 1]->qp_num,
                 [](ibv_qp_attr& a) { a.timeout = 22; });  // 17 s, eight times
    for (std::size_t i = 0; i < qps.size(); ++i)
      REQUIRE(post_receive(srq, i, to.sge(i * 64, 64)) == 0);
    for (std::size_t i = 0; i < qps.size(); ++i) {
      const std::size_t at = i * 64;
      const std::uint32_t number = qps[i]->qp_num;
      std::memcpy(from.bytes.data() + at, &number, sizeof number);
      ibv_sge sge = from.sge(at, 64);
      ibv_send_wr request = write_request(1, sge, to, 0);
      request.opcode = IBV_WR_SEND;
      REQUIRE(post(qps[i], request) == 0);
    }
    // Whose message it is stands in it: that of the other one of the pair.
    std::vector<int> received(qps.size());
    int sent = 0, arrived = 0;
    const auto end = std::chrono::steady_clock::now() + kLongPatience;
    while ((sent < 2 * kPairs || arrived < 2 * kPairs) && std::chrono::steady_clock::now() < end) {
      std::array<ibv_wc, 32> batch;
      const int n = ibv_poll_cq(cq, static_cast<int>(batch.size()), batch.data());
      REQUIRE(n >= 0);
      for (int k = 0; k < n; ++k) {
        const ibv_wc& wc = batch[static_cast<std::size_t>(k)];
        REQUIRE(wc.status == IBV_WC_SUCCESS);
        if (wc.opcode == IBV_WC_SEND) {
          ++sent;
          continue;
        }
        ++arrived;
        std::uint32_t sender = 0;
        std::memcpy(&sender, to.bytes.data() + wc.wr_id * 64, sizeof sender);
        const auto own = std::find_if(qps.begin(), qps.end(),
                                      [&](ibv_qp* qp) { return qp->qp_num == wc.qp_num; });
        REQUIRE(own != qps.end());
        const auto index = static_cast<std::size_t>(own - qps.begin());
        CHECK(qps[index ^ 1]->qp_num == sender);
        CHECK(++received[index] == 1);
      }
    }
    CHECK(sent == 2 * kPairs);
    CHECK(arrived == 2 * kPairs);
    for (ibv_qp* qp : qps) CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_srq(srq) == 0);
    CHECK(ibv_destroy_cq(cq) == 0);
  }
  // Those that were destroyed answer for 200 ms, and end when something else is made.
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  { const Queues other(program); }
  CHECK(open_descriptors() == before);
}

TEST_CASE("verbs scale: a device that is closed leaves nothing open") {
  { const Program program; }  // what is opened once and stays, like the log
  const std::ptrdiff_t before = open_descriptors();
  {
    const Linked pair;
    ibv_sge sge = pair.from.sge(0, 64);
    ibv_send_wr request = pair.request(IBV_WR_RDMA_WRITE, sge);
    REQUIRE(post(pair.a.qp, request) == 0);
    REQUIRE(pair.a.next().status == IBV_WC_SUCCESS);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("verbs scale: two threads post, two poll one completion queue") {
  Program program;
  Memory from(program), to(program);
  constexpr int kThreads = 2;
  ibv_cq* cq = ibv_create_cq(program.context, 1024, nullptr, nullptr, 0);
  REQUIRE(cq != nullptr);
  std::array<ibv_qp*, 2 * kThreads> qps{};
  for (ibv_qp*& qp : qps) qp = make_qp(program.pd, cq, {128, 1, 1, 1, 16});
  for (std::size_t i = 0; i < qps.size(); ++i) connect_to(qps[i], qps[i ^ 1]->qp_num);
  std::atomic<int> done{0}, failed{0};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const auto late = [end] { return std::chrono::steady_clock::now() > end; };
  // Of each thread that polls: what it was given, by queue pair, in turn.
  std::array<std::array<std::vector<std::uint64_t>, kThreads>, kThreads> taken;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPerThread && !late();) {
        ibv_sge sge = from.sge(t * 64, 8);
        ibv_send_wr request = write_request(static_cast<std::uint64_t>(i), sge, to, t * 64);
        const int error = post(qps[2 * t], request);
        if (error == 0)
          ++i;
        else if (error == ENOMEM)
          std::this_thread::yield();
        else
          ++failed;
      }
    });
    threads.emplace_back([&, t] {
      while (done < kThreads * kPerThread && !late()) {
        std::array<ibv_wc, 16> batch;
        const int n = ibv_poll_cq(cq, static_cast<int>(batch.size()), batch.data());
        for (int k = 0; k < n; ++k) {
          const ibv_wc& wc = batch[static_cast<std::size_t>(k)];
          if (wc.status != IBV_WC_SUCCESS) ++failed;
          taken[t][wc.qp_num == qps[0]->qp_num ? 0 : 1].push_back(wc.wr_id);
        }
        done += std::max(n, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(done == kThreads * kPerThread);
  for (std::size_t q = 0; q < kThreads; ++q) {
    std::vector<std::uint64_t> all;
    for (std::size_t t = 0; t < kThreads; ++t) {
      CHECK(std::is_sorted(taken[t][q].begin(), taken[t][q].end()));
      all.insert(all.end(), taken[t][q].begin(), taken[t][q].end());
    }
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == kPerThread);
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == i);
  }
  for (ibv_qp* qp : qps) CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
}

}  // namespace scale_test
