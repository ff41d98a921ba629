// SPDX-License-Identifier: Apache-2.0
// nccl_peer VERSION SEED GROUPS [exit]: the other process of nccl/conformance/process_test.cpp.
// Connects over the plugin, with handles exchanged over stdin and stdout, sends and receives GROUPS
// groups, and waits for the end of stdin before it closes. With `exit` it ends instead as soon as
// it is connected, and closes nothing. Exits with 0 when all went well.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "nccl/conformance/process.hpp"
#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "usage: nccl_peer VERSION SEED GROUPS [exit]\n");
    return 2;
  }
  try {
    Job job(std::atoi(arguments[1]), 1);
    ProcessLink link(job, STDOUT_FILENO, STDIN_FILENO);
    if (count > 4) std::exit(0);
    Plan plan{.seed = static_cast<std::uint64_t>(std::atoi(arguments[2])),
              .groups = std::atoi(arguments[3]),
              .depth = 8,
              .most_bytes = 60'000};
    Receiver receiver(job.net(), link.back.receive, plan);
    plan.seed += 1000;
    Sender sender(job.net(), link.there.send, plan);
    until("traffic", [&] {
      const bool sent = sender.step();
      return receiver.step() && sent;
    });
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_peer: %s\n", error.what());
    return 1;
  }
}
