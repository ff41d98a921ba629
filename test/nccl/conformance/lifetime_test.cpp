// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstring>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace lifetime_test {

/// Receives that are posted, and sends of some, none of which anybody waits for.
struct Pending {
  std::vector<void*> sends;
  std::vector<void*> receives;
};

Pending leave_pending(Net& net, Connection& connection, const Pool& from, const Pool& to,
                      Random& random) {
  Pending pending;
  const auto receives = 1 + random.below(20);
  const auto sends = random.below(receives + 1);
  constexpr std::size_t kSize = 100'000;
  for (std::uint64_t i = 0; i < receives; ++i)
    pending.receives.push_back(irecv(net, connection.receive, to.at(0, 0), kSize, 0, to.mr()));
  for (std::uint64_t i = 0; i < sends; ++i) {
    void* request = nullptr;
    for_a_while(std::chrono::milliseconds(1), [&] {
      request = try_isend(net, connection.send, from.at(0, 0), kSize, 0, from.mr());
      return request != nullptr;
    });
    if (request) pending.sends.push_back(request);
  }
  return pending;
}

/// Asks until each request is done or one failed, as NCCL does, which asks no more after an error.
bool fails_or_ends(Net& net, const std::vector<void*>& requests) {
  for (void* request : requests) {
    bool failed = false;
    until("end of a request whose peer has closed", [&] {
      int done = 0;
      failed = net.test(request, &done, nullptr) != Result::success;
      return failed || done;
    });
    if (failed) return true;
  }
  return false;
}

TEST_CASE("Many communicators live at once and end in any order") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version, 2);
    Random random(static_cast<std::uint64_t>(version));
    for (int round = 0; round < scaled(20); ++round) {
      while (job.ranks() < 8) job.add();
      const std::size_t from = random.below(8);
      {
        Connection connection(job, from, (from + 1 + random.below(7)) % 8);
        exchange(job.net(), connection.send, connection.receive, {.groups = 5});
      }
      while (job.ranks() > 2) ok(job.remove(random.below(job.ranks())), "finalize");
    }
  }
}

TEST_CASE("A communicator ends although its connections are open") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    for (const bool close_after : {false, true}) {
      Job job(version, 2);
      Setup half{.job = &job};
      half.listen();
      half.connect();
      auto connection = std::make_unique<Connection>(job);
      run(job, {connection.get()}, {.groups = 5});
      job.add();  // keeps the plugin loaded
      ok(job.remove(0), "finalize");
      ok(job.remove(0), "finalize");
      if (!close_after) {
        // Never closed: for leak checkers.
        static auto& left_open = *new std::vector<void*>;
        for (Setup* setup : {&half, static_cast<Setup*>(connection.get())}) {
          for (void** comm : {&setup->listener, &setup->send, &setup->receive}) {
            left_open.push_back(std::exchange(*comm, nullptr));
          }
        }
      }
      half.close_listener();
      half.close_send();
      connection.reset();
    }
    Job job(version);
    Connection connection(job);
    run(job, {&connection}, {.groups = 5});
  }
}

TEST_CASE("A side that closes in the middle fails the other side's requests") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    Random random(static_cast<std::uint64_t>(version));
    for (int round = 0; round < scaled(8); ++round) {
      Connection connection(job);
      Pool from(job.net(), connection.send, 1, 100'000);
      Pool to(job.net(), connection.receive, 1, 100'000);
      const Pending pending = leave_pending(job.net(), connection, from, to, random);
      if (round % 2) {
        from.dereg();
        connection.close_send();
        const bool failed = fails_or_ends(job.net(), pending.receives);
        CHECK((failed || pending.receives.size() == pending.sends.size()));
      } else {
        to.dereg();
        connection.close_receive();
        fails_or_ends(job.net(), pending.sends);
        // A send that begins afterwards gets to know, too.
        until("isend fails", [&] {
          void* request = nullptr;
          const Result result =
              job.net().isend(connection.send, from.at(0, 0), 100, 0, from.mr(), nullptr, &request);
          return result != Result::success || (request && fails_or_ends(job.net(), {request}));
        });
      }
    }
  }
}

TEST_CASE("What was sent arrives, though its sender closes at once and packets are lost") {
  const Environment environment{kTwoPlanes, {"MRC_FAULTS", "loss=0.3"}};
  constexpr std::size_t kCount = 8, kBytes = 16 << 10;  // small enough to be copied
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    Net& net = job.net();
    for (int round = 0; round < scaled(5); ++round) {
      Connection connection(job);
      Pool from(net, connection.send, 1, kCount * kBytes);
      Pool to(net, connection.receive, 1, kCount * kBytes);
      std::memset(from.at(0, 0), 1 + round, kCount * kBytes);
      std::vector<void*> receives;
      for (std::size_t i = 0; i < kCount; ++i)
        receives.push_back(
            irecv(net, connection.receive, to.at(0, i * kBytes), kBytes, 0, to.mr()));
      int done = 0;
      ok(net.test(receives.back(), &done, nullptr), "test");  // the peer is told of all
      for (std::size_t i = 0; i < kCount; ++i) {
        void* request = isend(net, connection.send, from.at(0, i * kBytes), kBytes, 0, from.mr());
        ok(net.test(request, &done, nullptr), "test");
        CHECK(done);
      }
      from.dereg();
      connection.close_send();
      std::memset(from.at(0, 0), 0xEE, kCount * kBytes);
      for (void* request : receives) finish(net, request);  // although their sender has closed
      const std::vector<char> expected(kCount * kBytes, static_cast<char>(1 + round));
      CHECK(std::memcmp(to.at(0, 0), expected.data(), expected.size()) == 0);
    }
  }
}

TEST_CASE("Both sides close in the middle, and the communicators end") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Random random(static_cast<std::uint64_t>(version));
    for (int round = 0; round < scaled(4); ++round) {
      Job job(version);
      Connection connection(job);
      {
        Pool from(job.net(), connection.send, 1, 100'000);
        Pool to(job.net(), connection.receive, 1, 100'000);
        leave_pending(job.net(), connection, from, to, random);
      }
      in_two_threads([&] { connection.close_send(); }, [&] { connection.close_receive(); });
    }
  }
}

TEST_CASE("After it was unloaded the plugin starts afresh") {
  for (const int version : versions()) {
    CAPTURE(version);
    for (int round = 0; round < scaled(4); ++round) {
      const bool odd = round % 2 != 0;
      const Environment environment{{"MRC_PLANES", odd ? "loopback:3" : "loopback:1"}};
      DebugLog::instance().clear();
      Job job(version);
      if (version >= 11) {  // older ones are never told of an end, so may go on as they were
        nccl_host::Properties properties;
        ok(job.net().properties(0, &properties), "properties");
        CHECK(DebugLog::instance().lines(LogLevel::info, "MRC").size() >= 1);
      }
      Connection connection(job);
      run(job, {&connection}, {.groups = 10});
    }
  }
}

TEST_CASE("The file can be closed and opened again while nothing uses it") {
  const Environment environment{kTwoPlanes};
  for (int round = 0; round < 20; ++round) {
    void* handle = dlopen(plugin_file().c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle != nullptr, dlerror());
    for (int version = nccl_host::kOldestApi; version <= nccl_host::kNewestApi; ++version) {
      CHECK(dlsym(handle, nccl_host::symbol_of(version).c_str()) != nullptr);
    }
    CHECK(dlclose(handle) == 0);
  }
}

}  // namespace lifetime_test
