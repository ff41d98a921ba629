// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace transfer_test {

/// Connections in both directions.
std::vector<std::unique_ptr<Connection>> connections_of(Job& job, int count) {
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < count; ++i) {
    connections.push_back(std::make_unique<Connection>(job, i % 2, 1 - i % 2));
  }
  return connections;
}
std::vector<Connection*> pointers(const std::vector<std::unique_ptr<Connection>>& connections) {
  std::vector<Connection*> result;
  for (const auto& connection : connections) result.push_back(connection.get());
  return result;
}

/// Powers of two and their neighbours.
std::vector<std::size_t> sizes_to(std::size_t most) {
  std::vector<std::size_t> sizes = {0, 1, 3};
  for (std::size_t size = 4; size <= most; size *= 2) {
    for (const std::size_t near : {size - 1, size, size + 1}) {
      if (near <= most) sizes.push_back(near);
    }
  }
  return sizes;
}

TEST_CASE("Messages of 0 bytes to 64 MiB arrive whole") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    Connection connection(job);
    run(job, {&connection}, {.depth = 4, .sizes = sizes_to(std::size_t{1} << 18)});
  }
  Job job(few_versions().front());
  Connection connection(job);
  const std::size_t most = std::size_t{64} << 20;
  std::vector<std::size_t> sizes = {1'000'003, 4'194'301, 8 << 20, most - 1, most};
  if (scaled(100) < 100) sizes = {1'000'003, 4'194'301};
  run(job, {&connection}, {.depth = 2, .sizes = sizes});
}

TEST_CASE("Random messages over connections in both directions arrive whole") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    const auto connections = connections_of(job, 6);
    for (const bool aligned : {false, true}) {
      run(job, pointers(connections),
          {.seed = 3, .groups = scaled(60), .depth = 8, .most_bytes = 40'000, .aligned = aligned});
    }
  }
}

TEST_CASE("32 groups of 8 are in flight, tags in any order") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    const auto connections = connections_of(job, 2);
    Plan plan{.seed = 5, .groups = scaled(200), .most_bytes = 3000};
    run(job, pointers(connections), plan);
    plan.repeat_tags = true;
    run(job, pointers(connections), plan);
  }
}

TEST_CASE("A send waits for its receive with null requests") {
  const Environment environment{kTwoPlanes};
  constexpr std::size_t kSize = 2000;  // smaller ones need not wait: eager_test.cpp
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    Connection connection(job);
    Pool from(job.net(), connection.send, 1, kSize);
    Pool to(job.net(), connection.receive, 1, kSize);
    fill(from.at(0, 0), kSize, 6);
    const auto send_now = [&](int tag) {
      return try_isend(job.net(), connection.send, from.at(0, 0), kSize, tag, from.mr());
    };
    for_a_while(std::chrono::milliseconds(20), [&] { return send_now(7) != nullptr; });
    CHECK(send_now(7) == nullptr);

    void* receive = irecv(job.net(), connection.receive, to.at(0, 0), kSize, 7, to.mr());
    ask(job.net(), receive);
    // Nor is a receive of another tag used.
    for_a_while(std::chrono::milliseconds(20), [&] { return send_now(8) != nullptr; });
    CHECK(send_now(8) == nullptr);
    finish(job.net(), isend(job.net(), connection.send, from.at(0, 0), kSize, 7, from.mr()));
    finish(job.net(), receive);
    check(to.at(0, 0), kSize, 6, "the message");
  }
}

TEST_CASE("A receive that is too small fails at both ends, and nothing is written behind it") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    for (const int group : {1, 4}) {
      CAPTURE(version);
      CAPTURE(group);
      Job job(version);
      Connection connection(job);
      Pool from(job.net(), connection.send, 1, 5000);
      Pool to(job.net(), connection.receive, static_cast<std::size_t>(group), 5000);
      void* data[4];
      std::size_t sizes[4];
      int tags[4];
      void* mrs[4];
      void* parents[4] = {};
      for (int i = 0; i < group; ++i) {
        data[i] = to.at(static_cast<std::size_t>(i), 0);
        sizes[i] = 4999;
        tags[i] = i;
        mrs[i] = to.mr();
        std::memset(to.at(static_cast<std::size_t>(i), 0), 1, 5512);
      }
      void* receive = nullptr;
      until("irecv", [&] {
        ok(job.net().irecv(connection.receive, group, data, sizes, tags, mrs, parents, &receive),
           "irecv");
        return receive != nullptr;
      });
      ask(job.net(), receive);
      // An error of isend, or of the send's test.
      Result result = Result::success;
      void* send = nullptr;
      until("error of the send", [&] {
        int done = 0;
        if (!send) {
          result = job.net().isend(connection.send, from.at(0, 0), 5000, group - 1, from.mr(),
                                   nullptr, &send);
        } else {
          result = job.net().test(send, &done, nullptr);
        }
        expect(!done, "the send is done");
        return result != Result::success;
      });
      CHECK(result == Result::invalid_usage);
      CHECK(failure_of(job.net(), receive) != Result::success);
      for (int i = 0; i < group; ++i) {
        const char* buffer = to.at(static_cast<std::size_t>(i), 0);
        for (std::size_t byte = 4999; byte < 5512; ++byte) expect(buffer[byte] == 1, "overrun");
      }
    }
  }
}

}  // namespace transfer_test
