// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <cstdlib>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace fault_test {

/// Random traffic in both directions of two ranks.
void exchange(int version, const Plan& plan) {
  Job job(version);
  Connection there(job, 0, 1);
  Connection back(job, 1, 0);
  run(job, {&there, &back}, plan);
}

/// The connected TCP sockets of this process.
std::vector<int> tcp_connections() {
  std::vector<int> found;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    int type = 0;
    sockaddr_storage peer{};
    socklen_t type_length = sizeof type, length = sizeof peer;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_length) == 0 && type == SOCK_STREAM &&
        ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      found.push_back(fd);
  }
  ::closedir(folder);
  return found;
}

TEST_CASE("Nothing is lost where packets are: 1 % on each of four planes") {
  const Environment environment{{"MRC_PLANES", "loopback:4"}, {"MRC_FAULTS", "loss=0.01"}};
  for (const int version : few_versions()) {
    CAPTURE(version);
    exchange(version, {.seed = 21, .groups = scaled(100), .depth = 8, .most_bytes = 60'000});
  }
}

TEST_CASE("Packets that come late, twice or broken do no harm") {
  const Environment environment{
      {"MRC_PLANES", "loopback:4"},
      {"MRC_FAULTS", "reorder=0.05;duplicate=0.02;corrupt=0.01;plane=2,jitter=200us"}};
  for (const int version : few_versions()) {
    CAPTURE(version);
    exchange(version, {.seed = 22, .groups = scaled(100), .depth = 8, .most_bytes = 60'000});
  }
}

TEST_CASE("A plane that goes down and returns is not noticed by traffic") {
  const Environment environment{{"MRC_PLANES", "loopback:4"},
                                {"MRC_FAULTS", "plane=1,down@100ms-400ms"}};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    Connection there(job, 0, 1);
    Connection back(job, 1, 0);
    std::uint64_t seed = 23;
    for_a_while(std::chrono::milliseconds(600), [&] {
      run(job, {&there, &back}, {.seed = ++seed, .groups = 20, .depth = 8, .most_bytes = 60'000});
      return false;
    });
  }
}

TEST_CASE("The log says how many planes are left") {
  if (keeps_old_environment()) return;
  struct Case {
    const char* planes;
    const char* faults;
    const char* line;
  };
  for (const Case& one :
       {Case{"loopback:1", "down@1s-4s", " is down, and there is no other: traffic waits for it"},
        Case{"loopback:3", "plane=1,down@1s-4s", " is down; 2 of 3 planes are left"},
        Case{"loopback:2", "down@1s-4s", " is down; no plane is left: traffic waits for one"}}) {
    CAPTURE(one.line);
    const Environment environment{{"MRC_PLANES", one.planes}, {"MRC_FAULTS", one.faults}};
    DebugLog::instance().clear();
    Job job(few_versions().front());
    Connection there(job, 0, 1);
    const auto said = [](const char* text) {
      return !DebugLog::instance().lines(LogLevel::warn, text).empty();
    };
    std::uint64_t seed = 60;
    until("lines", [&] {
      run(job, {&there}, {.seed = ++seed, .groups = 20, .depth = 8, .most_bytes = 60'000});
      return said(one.line) && said(" is up again");
    });
  }
}

TEST_CASE("A network that passes TCP and no UDP is named as soon as ranks have connected") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_FAULTS", "loss=1@0ms-6s"}};
  DebugLog::instance().clear();
  Job job(few_versions().front());
  Connection there(job, 0, 1);
  run(job, {&there}, {.seed = 29, .groups = 20, .depth = 8, .most_bytes = 60'000});
  CHECK_FALSE(DebugLog::instance().lines(LogLevel::warn, "none of its packets of MRC").empty());
}

TEST_CASE("A network that never passes UDP ends connections, and they say why") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes,
                                {"MRC_FAULTS", "loss=1"},
                                {"NCCL_MRC_RETRY_CNT_EXP", "4"},
                                {"MRC_NCCL_OUTAGE", "2500ms"}};
  DebugLog::instance().clear();
  Job job(few_versions().front());
  Connection there(job, 0, 1);
  CHECK_THROWS_WITH_AS(run(job, {&there}, {.seed = 31, .groups = 1}),
                       doctest::Contains("remote error"), Failure);
  CHECK_FALSE(DebugLog::instance()
                  .lines(LogLevel::warn, "over TCP: none of its packets of MRC arrives here")
                  .empty());
}

TEST_CASE("All planes fail for 5 s, and traffic goes on") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_FAULTS", "down@300ms-5300ms"}};
  Job job(few_versions().front());
  Connection there(job, 0, 1);
  Connection back(job, 1, 0);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t seed = 30;
  do {
    run(job, {&there, &back}, {.seed = ++seed, .groups = 20, .depth = 8, .most_bytes = 60'000});
  } while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(5500));
}

TEST_CASE(
    "A TCP connection that is ended by somebody else, or that says something wrong, is not "
    "missed") {
  const Environment environment{kTwoPlanes};
  for (const bool garbage : {false, true}) {
    CAPTURE(garbage);
    Job job(few_versions().front());
    Connection there(job, 0, 1);
    Connection back(job, 1, 0);
    run(job, {&there, &back}, {.seed = 41, .groups = 10});
    const auto connections = tcp_connections();
    CHECK(connections.size() >= 4);  // both ends of two
    for (const int fd : connections) {
      if (garbage)
        (void)::send(fd, "\0\0\0\1x12345678", 13, MSG_NOSIGNAL);
      else
        ::shutdown(fd, SHUT_RDWR);
    }
    std::uint64_t seed = 42;
    for_a_while(std::chrono::milliseconds(600), [&] {
      run(job, {&there, &back}, {.seed = ++seed, .groups = 20, .depth = 8, .most_bytes = 60'000});
      return false;
    });
  }
}

TEST_CASE("Nobody answers while a receive waits, and the TCP connection ends: the peer goes on") {
  const Environment environment{kTwoPlanes};
  Job job(few_versions().front());
  Connection there(job, 0, 1);
  Receiver receiver(job.net(), there.receive, {.seed = 51, .groups = 1});
  for_a_while(std::chrono::milliseconds(50), [&] { return receiver.step(); });
  for (const int fd : tcp_connections()) ::shutdown(fd, SHUT_RDWR);
  // Longer than the end of a process takes to be noticed.
  for_a_while(std::chrono::milliseconds(600), [&] { return receiver.step(); });
  Sender sender(job.net(), there.send, {.seed = 51, .groups = 1});
  until("message", [&] {
    const bool sent = sender.step();
    return receiver.step() && sent;
  });
}

}  // namespace fault_test
