// SPDX-License-Identifier: Apache-2.0
// fork() beside a device with a control socket.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "host/control_rig.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("control: a forked child leaves the parent's socket alone") {
  const OwnFolder folder;
  Config config = test_config();
  config.control = folder.path;
  auto pair = std::make_unique<Pair>(config);
  const auto sockets = control::sockets_in(folder.path);
  REQUIRE(sockets.size() == 2);
  const ::pid_t child = ::fork();
  if (child == 0) {
    pair.reset();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  for (const auto& socket : sockets)
    CHECK(ControlClient(socket.path).must({{"request", "process"}})["pid"] == ::getpid());
}
