// SPDX-License-Identifier: Apache-2.0
// fork() beside an open device: the child's calls fail, its destructors end, and the parent goes
// on.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stop_token>
#include <thread>

#include "device_rig.hpp"
#include "mrc/core/types.hpp"
#include "support/brief.hpp"

using namespace mrc;
using namespace mrc::test;

namespace fork_test {

/// Runs f in a forked child, which ends with _exit() and its result, if it returns. The exit
/// status, or -1 for a child that hung or was killed.
template <class F>
int in_child(F&& f) {
  std::cout.flush();  // or a child that calls exit() prints it again
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) ::_exit(f());
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid, &status, WNOHANG) != 0; })) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class F>
bool throws_forked(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code() == Errc::forked && contains(error.what(), "after fork()");
  }
  return false;
}

/// The number of the first call of queues, queue pairs and memory that does not fail as it should;
/// 0 if all do.
int wrong_call_on_objects(Side& side) {
  QueuePair& qp = side.qps[0];
  std::array<Completion, 4> some;
  std::size_t posted = 9;
  const SendRequest request;
  if (qp.post_send(request) != Errc::forked) return 1;
  if (qp.post_sends({&request, 1}, posted) != Errc::forked || posted != 0) return 2;
  if (qp.post_receive(1) != Errc::forked) return 3;
  if (qp.to_error() != Errc::forked || qp.reset() != Errc::forked) return 4;
  if (qp.state() != QpState::err || !contains(qp.error_text(), "fork")) return 5;
  if (!throws_forked([&] { (void)qp.local_info(); })) return 6;
  if (!throws_forked([&] { (void)qp.query(); })) return 7;
  if (!throws_forked([&] { qp.modify({}); })) return 8;
  if (qp.stats().tx_packets != 0 || qp.error_cause() != QpErrorCause::none) return 9;
  if (qp.close() != Errc::forked) return 10;
  if (side.cq.poll(some) != 0 || side.cq.overrun()) return 11;
  if (!throws_forked([&] { (void)side.cq.wait(some, kPatience); })) return 12;
  if (side.cq.arm() != Errc::forked || side.cq.close() != Errc::forked) return 13;
  if (qp.set_hint({8, 1}) != Errc::forked) return 15;
  side.cq.acknowledge();
  if (side.source_region.close() != Errc::forked) return 14;
  return 0;
}

/// The same for a shared receive queue.
int wrong_call_on_srq(SharedReceiveQueue& srq) {
  std::size_t posted = 9;
  const ReceiveRequest request;
  if (srq.post_receive(request) != Errc::forked || srq.set_limit(1) != Errc::forked) return 51;
  if (srq.post_receives({&request, 1}, posted) != Errc::forked || posted != 0) return 52;
  if (!throws_forked([&] { (void)srq.query(); })) return 53;
  return srq.close() != Errc::forked ? 54 : 0;
}

/// The same for the device.
int wrong_call_on_device(Side& side) {
  Device& device = side.device;
  DeviceEvent event;
  if (!throws_forked([&] { (void)device.alloc_pd(); })) return 21;
  if (!throws_forked([&] { (void)device.create_cq(4); })) return 22;
  if (!throws_forked([&] { (void)device.create_channel(); })) return 23;
  if (!throws_forked([&] { side.add_qp(); })) return 24;
  if (!throws_forked([&] { (void)device.stats(); })) return 25;
  if (!throws_forked([&] { (void)device.paths(side.qps[0]); })) return 26;
  if (!throws_forked([&] { device.set_faults(""); })) return 27;
  if (!throws_forked([&] { (void)device.register_memory(std::span(side.source), Access::none); }))
    return 28;
  if (!throws_forked([&] { (void)device.create_srq(); })) return 33;
  if (device.dealloc_pd(device.default_pd()) != Errc::forked) return 29;
  if (device.progress() || device.poll_event(event)) return 30;
  if (!is_mtu(device.default_attributes().mtu)) return 32;
  if (device.plane_count() != 2 || device.lane_count() < 1) return 31;
  return 0;
}

/// Destroyed by exit(), in a child too.
std::unique_ptr<Pair> g_pair;

TEST_CASE("fork: children forked in mid-transfer fail cleanly and end, the parent goes on") {
  for (const std::string lanes : {"1", "2"}) {
    CAPTURE(lanes);
    Config config = test_config();
    config.set("lanes", lanes);
    g_pair = std::make_unique<Pair>(config);
    SharedReceiveQueue srq = g_pair->a.device.create_srq();
    std::atomic<unsigned> copied{0};
    std::jthread traffic([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        g_pair->copy_all();
        ++copied;
      }
    });
    int wrong = 0;
    for (unsigned i = 0; i < (kBrief ? 20 : 60) && wrong == 0; ++i) {
      const unsigned before = copied;
      wrong = in_child([&] {
        if (const int call = wrong_call_on_objects(g_pair->a)) return call;
        if (const int call = wrong_call_on_device(g_pair->b)) return call;
        if (const int call = wrong_call_on_srq(srq)) return call;
        if (i % 3 == 0) {
          srq = {};
          g_pair.reset();
        }
        if (i % 3 == 1) std::exit(0);
        if (i % 16 == 2) {  // without a thread, which thread sanitizers do not allow here
          Config own = test_config();
          own.helper = false;
          Side another(own, 4096);
          if (another.add_qp().state() != QpState::reset) return 41;
        }
        return 0;
      });
      CHECK(eventually([&] { return copied != before; }));
    }
    CHECK(wrong == 0);
    traffic.request_stop();
    traffic.join();
    CHECK(g_pair->a.qps[0].state() == QpState::rts);
    g_pair->copy_all();
    g_pair.reset();
  }
}

TEST_CASE("fork: a child that destroys its handles gives the parent's UDP ports back") {
  Config config = test_config("loopback:1");
  config.helper = false;  // nobody is at work in the device when it forks
  auto side = std::make_unique<Side>(config, 4096);
  const auto slot = [] { return slot_of(Side(test_config("loopback:1"), 4096).add_qp().qpn()); };
  int ready[2], go[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(go) == 0);
  char byte = 0;
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    side.reset();
    (void)!::write(ready[1], "r", 1);
    ::close(go[1]);
    (void)!::read(go[0], &byte, 1);
    ::_exit(0);
  }
  CHECK(::read(ready[0], &byte, 1) == 1);
  CHECK(slot() == 1);  // the parent's own is open
  side.reset();
  CHECK(slot() == 0);  // and the child's copy was closed
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
  int status = -1;
  CHECK(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

/// Unmaps memory that is registered at one side and writes 64 KiB between it and the other side's.
/// In a process of its own: its exit status is the status of the write's completion, or 100 if
/// there was none; -1 if a signal ended it.
int write_with_unmapped(bool at_sender, bool icrc) {
  return in_child([&] {
    ::signal(SIGSEGV, SIG_DFL);  // no report of a test that crashed
    const rlimit none{};
    (void)::setrlimit(RLIMIT_CORE, &none);
    Config config = impatient_config("loopback:1");
    config.helper = false;
    config.icrc = icrc ? port::Offload::on : port::Offload::off;
    Pair pair(config, 64 << 10);
    Side& side = at_sender ? pair.a : pair.b;
    void* memory =
        ::mmap(nullptr, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (at_sender ? side.source_region : side.target_region) = side.device.register_memory(
        memory, 64 << 10, at_sender ? Access::none : Access::local_write | Access::remote_write);
    ::munmap(memory, 64 << 10);
    const Sge sge{pair.a.source_region.address(), 64 << 10, pair.a.source_region.lkey()};
    SendRequest request;
    request.sges = {&sge, 1};
    request.remote = pair.b.target_region.remote();
    if (pair.a.qps[0].post_send(request) != Errc::ok) return 101;
    Completion done;
    const bool came = eventually([&] {
      (void)pair.b.device.progress();
      return pair.a.cq.poll({&done, 1}) == 1;
    });
    return came ? static_cast<int>(done.status) : 100;
  });
}

TEST_CASE("memory that is unmapped after it was registered: as if the program had touched it") {
  for (const bool icrc : {true, false}) CHECK(write_with_unmapped(false, icrc) == -1);
  CHECK(write_with_unmapped(true, true) == -1);
  // Only the kernel reads it, and refuses.
  CHECK(write_with_unmapped(true, false) == static_cast<int>(WcStatus::retry_exc_err));
}

}  // namespace fork_test
