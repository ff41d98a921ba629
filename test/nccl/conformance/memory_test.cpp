// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace memory_test {

void* registered(Net& net, void* comm, void* data, std::size_t size) {
  void* mr = nullptr;
  ok(net.reg(comm, data, size, nccl_abi::kHostMemory, &mr), "reg");
  expect(mr != nullptr, "reg returns a registration");
  return mr;
}

/// One message from `data` to `target`, by those registrations.
void send_by(Job& job, Connection& connection, char* data, void* data_mr, char* target,
             void* target_mr, std::size_t bytes) {
  Net& net = job.net();
  void* receive = irecv(net, connection.receive, target, bytes, 1, target_mr);
  ask(net, receive);
  void* send = isend(net, connection.send, data, bytes, 1, data_mr);
  for (void* request : {send, receive}) finish(net, request);
}

TEST_CASE("Memory is registered and deregistered while messages go") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    Connection there(job, 0, 1);
    Connection back(job, 1, 0);
    std::atomic<bool> stop = false;
    // As the service thread does for buffers of the user, of connections that are in use.
    const auto service = [&](void* comm, std::uint64_t seed) {
      Random random(seed);
      std::vector<char> memory(1 << 20);
      std::vector<void*> mrs;
      while (!stop) {
        if (mrs.size() < 20 && random.below(2)) {
          const std::size_t begin = random.below(memory.size() - 1);
          const std::size_t size = 1 + random.below(memory.size() - begin - 1);
          mrs.push_back(registered(job.net(), comm, memory.data() + begin, size));
        } else if (!mrs.empty()) {
          const std::size_t chosen = random.below(mrs.size());
          ok(job.net().dereg(comm, mrs[chosen]), "dereg");
          mrs.erase(mrs.begin() + static_cast<std::ptrdiff_t>(chosen));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      for (void* mr : mrs) ok(job.net().dereg(comm, mr), "dereg");
    };
    auto first = std::async(std::launch::async, service, there.send, 1);
    auto second = std::async(std::launch::async, service, there.receive, 2);
    try {
      run(job, {&there, &back}, {.seed = 11, .groups = scaled(150), .most_bytes = 20'000});
    } catch (...) {
      stop = true;
      throw;
    }
    stop = true;
    first.get();
    second.get();
  }
}

TEST_CASE("A buffer is registered many times and overlapping, and deregistered in any order") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    Connection connection(job);
    auto& net = job.net();
    std::vector<char> from(100'000);
    std::vector<char> to(100'000);
    fill(from.data(), from.size(), 1);
    std::vector<void*> sending;
    std::vector<void*> receiving;
    for (int i = 0; i < 50; ++i) {
      const std::size_t less = i % 2 ? static_cast<std::size_t>(i) : 0;
      sending.push_back(registered(net, connection.send, from.data(), from.size() - less));
      receiving.push_back(registered(net, connection.receive, to.data(), to.size() - less));
    }
    Random random(4);
    while (!sending.empty()) {
      const std::size_t chosen = random.below(sending.size());
      std::fill(to.begin(), to.end(), '\0');
      send_by(job, connection, from.data(), sending[chosen], to.data(), receiving[chosen], 99'000);
      check(to.data(), 99'000, 1, "message by registration " + std::to_string(chosen));
      ok(net.dereg(connection.send, sending[chosen]), "dereg");
      ok(net.dereg(connection.receive, receiving[chosen]), "dereg");
      sending.erase(sending.begin() + static_cast<std::ptrdiff_t>(chosen));
      receiving.erase(receiving.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
  }
}

TEST_CASE("A global registration serves all connections, also after its own has closed") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    nccl_host::Properties properties;
    ok(job.net().properties(0, &properties), "properties");
    if (!properties.registration_is_global) {
      CHECK(version < 8);  // which have no word for it
      continue;
    }
    Connection one(job);
    Connection other(job);
    std::vector<char> from(10'000);
    std::vector<char> to(10'000);
    fill(from.data(), from.size(), 1);
    void* sending = registered(job.net(), one.send, from.data(), from.size());
    void* receiving = registered(job.net(), one.receive, to.data(), to.size());
    send_by(job, other, from.data(), sending, to.data(), receiving, 10'000);
    check(to.data(), to.size(), 1, "message");
    one.close_send();
    one.close_receive();
    std::fill(to.begin(), to.end(), '\0');
    send_by(job, other, from.data() + 1, sending, to.data() + 3, receiving, 9'000);
    CHECK(std::equal(to.begin() + 3, to.begin() + 9003, from.begin() + 1));
    ok(job.net().dereg(other.send, sending), "dereg");
    ok(job.net().dereg(other.receive, receiving), "dereg");
  }
}

TEST_CASE("What can't be registered is refused") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    Connection connection(job);
    auto& net = job.net();
    std::vector<char> memory(4096);
    for (void* comm : {connection.send, connection.receive}) {
      void* mr = nullptr;
      CHECK(net.reg(comm, nullptr, 4096, nccl_abi::kHostMemory, &mr) != Result::success);
      CHECK(net.reg(comm, memory.data(), 0, nccl_abi::kHostMemory, &mr) != Result::success);
      CHECK(net.reg(comm, memory.data(), 4096, nccl_abi::kCudaMemory, &mr) != Result::success);
      CHECK(net.reg(comm, memory.data(), 4096, 0, &mr) != Result::success);
      CHECK(net.reg_dma_buf(comm, memory.data(), 4096, nccl_abi::kCudaMemory, 0, -1, &mr) !=
            Result::success);
      CHECK(net.dereg(comm, nullptr) != Result::success);
      CHECK(mr == nullptr);
    }
    CHECK(net.reg(nullptr, memory.data(), 4096, nccl_abi::kHostMemory, &connection.receive) !=
          Result::success);
    run(job, {&connection}, {.groups = 5});
  }
}

TEST_CASE("A message outside its registered memory is an error, and not written") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    for (const bool sender_is_wrong : {false, true}) {
      CAPTURE(version);
      CAPTURE(sender_is_wrong);
      Job job(version);
      Connection connection(job);
      auto& net = job.net();
      // Whole pages may be registered: the message is in another one.
      constexpr std::size_t kOutside = 3 * 4096;
      std::vector<char> from(5 * 4096, 'f');
      std::vector<char> to(5 * 4096, 't');
      void* from_mr =
          registered(net, connection.send, from.data(), sender_is_wrong ? 4096 : from.size());
      void* to_mr =
          registered(net, connection.receive, to.data(), sender_is_wrong ? to.size() : 4096);
      std::string error;
      try {
        send_by(job, connection, from.data() + kOutside, from_mr, to.data() + kOutside, to_mr,
                2000);
      } catch (const Failure& failure) {
        error = failure.what();
      }
      CAPTURE(error);
      CHECK_FALSE(error.empty());
      CHECK(error.find("too long") == std::string::npos);
      CHECK(std::count(to.begin(), to.end(), 't') == 5 * 4096);
      ok(net.dereg(connection.send, from_mr), "dereg");
      ok(net.dereg(connection.receive, to_mr), "dereg");
    }
  }
}

TEST_CASE("A handle that was deregistered is an error, and the connection goes on") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    Connection connection(job);
    auto& net = job.net();
    std::vector<char> memory(4096, 't');
    void* sending = registered(net, connection.send, memory.data(), memory.size());
    void* receiving = registered(net, connection.receive, memory.data(), memory.size());
    ok(net.dereg(connection.send, sending), "dereg");
    ok(net.dereg(connection.receive, receiving), "dereg");

    void* request = nullptr;
    void* place = memory.data();
    void* parent = nullptr;
    std::size_t bytes = 100;
    int tag = 1;
    CHECK(net.isend(connection.send, place, bytes, tag, sending, nullptr, &request) ==
          Result::invalid_argument);
    CHECK(net.irecv(connection.receive, 1, &place, &bytes, &tag, &receiving, &parent, &request) ==
          Result::invalid_argument);
    CHECK(request == nullptr);
    CHECK(net.dereg(connection.send, sending) == Result::invalid_argument);
    run(job, {&connection}, {.groups = 5});
  }
}

}  // namespace memory_test
