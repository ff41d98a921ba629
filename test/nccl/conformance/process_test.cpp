// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <doctest/doctest.h>

#include <optional>

#include "nccl/conformance/process.hpp"
#include "nccl/conformance/traffic.hpp"
#include "support/brief.hpp"

using namespace nccl_conformance;

namespace process_test {

/// A second process (test/nccl/peer.cpp).
class Peer {
 public:
  Peer(int version, int seed, int groups, bool exits = false) {
    int down[2];
    int up[2];
    expect(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0, "pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
    std::string words[] = {NCCL_PEER_PATH, std::to_string(version), std::to_string(seed),
                           std::to_string(groups), "exit"};
    char* arguments[] = {words[0].data(),
                         words[1].data(),
                         words[2].data(),
                         words[3].data(),
                         exits ? words[4].data() : nullptr,
                         nullptr};
    const int error = posix_spawn(&pid_, NCCL_PEER_PATH, &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(down[0]);
    ::close(up[1]);
    to_ = down[1];
    from_ = up[0];
    expect(error == 0, "posix_spawn");
  }
  ~Peer() {
    if (pid_ > 0) {
      kill();
      (void)end();
    }
    ::close(from_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] int to() const { return to_; }
  [[nodiscard]] int from() const { return from_; }

  void kill() const { ::kill(pid_, SIGKILL); }
  void stop() const { ::kill(pid_, SIGSTOP); }
  void go_on() const { ::kill(pid_, SIGCONT); }
  /// Lets it end, and returns its exit code, or -1 after a signal.
  int end() {
    ::close(to_);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

/// Traffic in both directions with a peer of that seed, until all is done.
void talk(Job& job, ProcessLink& link, std::uint64_t seed, int groups,
          const std::function<void(int)>& each) {
  Plan plan{.seed = seed, .groups = groups, .depth = 8, .most_bytes = 60'000};
  Sender sender(job.net(), link.there.send, plan);
  plan.seed += 1000;
  Receiver receiver(job.net(), link.back.receive, plan);
  int steps = 0;
  until("traffic", [&] {
    each(++steps);
    const bool sent = sender.step();
    return receiver.step() && sent;
  });
}

void talk_to_process(int version, int seed) {
  Job job(version, 1);
  const int groups = scaled(100);
  Peer peer(version, seed, groups);
  {
    ProcessLink link(job, peer.to(), peer.from());
    talk(job, link, static_cast<std::uint64_t>(seed), groups, [](int) {});
    CHECK(peer.end() == 0);
  }
}

TEST_CASE("Two processes exchange random messages") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    talk_to_process(version, version);
  }
}

TEST_CASE("Two processes exchange random messages, and 1 % of the packets are lost") {
  const Environment environment{{"MRC_PLANES", "loopback:4"}, {"MRC_FAULTS", "loss=0.01"}};
  for (const int version : few_versions()) {
    CAPTURE(version);
    talk_to_process(version, version);
  }
}

TEST_CASE("Two processes use different versions of the interface") {
  const Environment environment{kTwoPlanes};
  Job job(12, 1);
  Peer peer(8, 5, 50);
  ProcessLink link(job, peer.to(), peer.from());
  talk(job, link, 5, 50, [](int) {});
  CHECK(peer.end() == 0);
}

TEST_CASE("A peer that is killed is a remote error, and this side goes on") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version, 1);
    for (int round = 0; round < scaled(5); ++round) {
      Peer peer(version, 3, 1'000'000);
      ProcessLink link(job, peer.to(), peer.from());
      std::string error;
      try {
        talk(job, link, 3, 1'000'000, [&](int steps) {
          if (steps == 20 * round + 1) peer.kill();
        });
      } catch (const Failure& failure) {
        error = failure.what();
      }
      CAPTURE(error);
      CHECK(error.find("remote error") != std::string::npos);
    }
    talk_to_process(version, version);
  }
}

TEST_CASE("A peer that is stopped for seconds is waited for, since its host answers") {
  if (keeps_old_environment()) return;
  // 160 ms for a host that is silent.
  const Environment environment{kTwoPlanes, {"NCCL_MRC_RETRY_CNT_EXP", "4"}};
  Job job(few_versions().front(), 1);
  Peer peer(few_versions().front(), 3, 400);
  ProcessLink link(job, peer.to(), peer.from());
  std::optional<std::chrono::steady_clock::time_point> stopped;
  bool over = false;
  talk(job, link, 3, 400, [&](int steps) {
    const auto now = std::chrono::steady_clock::now();
    if (steps == 20) {
      peer.stop();
      stopped = now;
    } else if (stopped && !over && now - *stopped > std::chrono::seconds(4)) {
      peer.go_on();
      over = true;
    }
  });
  CHECK(over);
  CHECK(peer.end() == 0);
}

TEST_CASE("A peer that stays stopped is a remote error after the time for outages") {
  if (keeps_old_environment()) return;
  const Environment environment{
      kTwoPlanes, {"NCCL_MRC_RETRY_CNT_EXP", "4"}, {"MRC_NCCL_OUTAGE", "1500ms"}};
  Job job(few_versions().front(), 1);
  Peer peer(few_versions().front(), 3, 1'000'000);
  ProcessLink link(job, peer.to(), peer.from());
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS(talk(job, link, 3, 1'000'000,
                            [&](int steps) {
                              if (steps == 20) peer.stop();
                            }),
                       doctest::Contains("remote error"), Failure);
  CHECK(std::chrono::steady_clock::now() - start > std::chrono::milliseconds(1500));
}

TEST_CASE("A process that exits and closes nothing does so at once, and is a remote error") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version, 1);
    Peer peer(version, 3, 1, true);
    ProcessLink link(job, peer.to(), peer.from());
    CHECK(peer.end() == 0);  // its end of stdin does not matter to it
    CHECK_THROWS_WITH_AS(talk(job, link, 3, 1, [](int) {}), doctest::Contains("remote error"),
                         Failure);
  }
}

TEST_CASE("A child of fork() can end, and can use the plugin anew") {
  if (mrc::test::kSanitized)
    return (void)std::puts("[test skipped] no fork beside threads under a sanitizer");
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    Connection connection(job);
    run(job, {&connection}, {.groups = 5});
    for (const bool uses : {false, true}) {
      CAPTURE(uses);
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        alarm(static_cast<unsigned>(mrc::test::kPatience.count()));
        bool fine = true;
        try {
          if (uses) {
            Job own(version);
            Connection within(own);
            run(own, {&within}, {.groups = 5});
          }
        } catch (const std::exception& error) {
          std::fprintf(stderr, "child: %s\n", error.what());
          fine = false;
        }
        std::exit(fine ? 0 : 1);
      }
      int status = 0;
      waitpid(child, &status, 0);
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
    }
    run(job, {&connection}, {.groups = 5});
  }
}

TEST_CASE("A listener whose process was killed does not keep connect waiting") {
  const Environment environment{kTwoPlanes};
  Job job(few_versions().front(), 1);
  Setup there{.job = &job};
  there.from = 0;
  {
    Peer peer(few_versions().front(), 3, 1);
    char nothing[nccl_abi::kHandleBytes] = {};
    swap_bytes(peer.to(), peer.from(), nothing, there.handle, sizeof(there.handle));
  }
  bool failed = false;
  for_a_while(std::chrono::seconds(5), [&] {
    failed = job.net().connect(job.context(0), 0, there.handle, &there.send) != Result::success;
    return failed || there.send;
  });
  CHECK(failed);
  CHECK(there.send == nullptr);
}

}  // namespace process_test
