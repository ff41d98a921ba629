// SPDX-License-Identifier: Apache-2.0
// Opening a device where a seccomp filter blocks system calls that it needs later.
#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace system_calls_test {

/// From here on this process's calls of `number` fail with `error`.
bool block(unsigned number, unsigned error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

enum Outcome { named, not_named, opened, not_blocked };

/// What comes of opening a device in a child process where that call is blocked.
Outcome open_without(const std::string& name, unsigned number, unsigned error) {
  const Config config = test_config("loopback:1");
  const pid_t child = ::fork();
  if (child == 0) {  // ends by _exit(), which needs no other call
    if (!block(number, error)) ::_exit(not_blocked);
    try {
      const Device device(config);
      ::_exit(opened);
    } catch (const Error& e) {
      const std::string wanted = "system call " + name + " is blocked";
      ::_exit(std::string(e.what()).find(wanted) != std::string::npos ? named : not_named);
    } catch (...) {
      ::_exit(not_named);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return static_cast<Outcome>(WEXITSTATUS(status));
}

struct Call {
  std::string name;
  unsigned number;
};
const Call kCalls[] = {
    {"recvmmsg", SYS_recvmmsg},
    {"sendmmsg", SYS_sendmmsg},
    {"ppoll", SYS_ppoll},
    {"write", SYS_write},
};

TEST_CASE("blocked system calls: opening a device fails and names the call") {
  for (const unsigned error : {EPERM, ENOSYS})
    for (const Call& call : kCalls) {
      CAPTURE(call.name);
      CAPTURE(error);
      const Outcome outcome = open_without(call.name, call.number, error);
      if (outcome == not_blocked) {
        std::puts("[test skipped] seccomp filters can't be installed here");
        return;
      }
      CHECK(outcome == named);
    }
  CHECK(open_without("none", 0xFFFF, EPERM) == opened);
}

}  // namespace system_calls_test
