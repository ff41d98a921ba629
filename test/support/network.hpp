// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

/// Tests in a network namespace of their own, which goes with the thread that made it.
namespace mrc::test {

/// Runs a shell command; the test fails if it does.
inline void shell(const std::string& command) {
  INFO(command);
  CHECK(std::system(command.c_str()) == 0);
}
/// A command that waits until these interfaces have carrier: the kernel looks at its own time.
inline std::string await_carrier(const std::string& interfaces) {
  return "for i in " + interfaces +
         "; do n=0; until ip link show $i | grep -q 'state UP'; do "
         "n=$((n + 1)); test $n -lt 3000 || exit 1; sleep 0.01; done; done";
}

/// A command that waits until this own IPv6 address has its route, by loopback: where it was added
/// with `nodad`, a work queue of the kernel enters it, after the command that adds the address.
inline std::string await_own_route(const std::string& address) {
  return "n=0; until ip -6 route show table local | grep -q '^local " + address +
         " '; do n=$((n + 1)); test $n -lt 3000 || exit 1; sleep 0.01; done";
}

/// Runs `body` in a new network namespace, or skips the test case where that is not allowed. The
/// doctest reporters need the thread to end before the test case does.
template <class Body>
void in_new_network(Body body) {
  bool allowed = true;
  std::thread([&] {
    allowed = unshare(CLONE_NEWNET) == 0;
    if (!allowed) return;
    try {
      body();
    } catch (const std::exception& error) {
      FAIL_CHECK(std::string(error.what()));
    }
  }).join();
  if (!allowed) std::puts("[test skipped] making a network namespace needs root");
}

}  // namespace mrc::test
