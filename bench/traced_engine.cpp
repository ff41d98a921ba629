// SPDX-License-Identifier: Apache-2.0
// Moves packets of 4 KiB between two engines once, for a tool that traces memory:
//
//   traced_engine QUEUE_PAIRS PACKETS
//
// Prints the address of Rig::at_work before it begins. scripts/bench_lines runs it.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "bench_engine_rig.hpp"

int main(int argc, char** argv) {
  using mrc::bench::Rig;
  const unsigned long queue_pairs = argc == 3 ? std::strtoul(argv[1], nullptr, 10) : 0;
  const unsigned long packets = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
  if (queue_pairs == 0 || queue_pairs > 10'000 || packets == 0) {
    std::fputs("usage: traced_engine QUEUE_PAIRS PACKETS\n  1 to 10000 queue pairs\n", stderr);
    return 2;
  }
  try {
    std::printf("%p\n", static_cast<const volatile void*>(&Rig::at_work));
    std::fflush(stdout);
    Rig rig({.queue_pairs = static_cast<std::uint32_t>(queue_pairs)});
    mrc::bench::Share requester, responder;
    rig.run(packets, requester, responder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "traced_engine: %s\n", error.what());
    return 1;
  }
}
