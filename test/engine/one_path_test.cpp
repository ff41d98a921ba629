// SPDX-License-Identifier: Apache-2.0
// One plane, of whose paths a single one is left, in both directions.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "support/engine_pair.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace one_path_test {

/// A transfer in which 15 of 16 paths die, in both directions. True if it ends well.
bool survives(std::uint64_t seed, std::uint8_t retry_exponential) {
  EnginePair::Setup setup;
  setup.planes = 1;
  setup.paths = 16;
  setup.tags = seed % 2 == 0;
  EnginePair pair(setup, seed);
  std::vector<std::uint8_t> from(64 << 10, 1), to(from.size());
  const auto key = pair.register_memory(0, from.data(), from.size(), Access::none);
  const auto rkey = pair.register_memory(1, to.data(), to.size(), Access::remote_write);
  std::array<Qpn, 2> qpn{};
  std::array<CqId, 2> cq{};
  for (unsigned side = 0; side < 2; ++side) {
    cq[side] = *pair[side].create_cq(256);
    engine::QpInit init;
    init.pd = pair.pd(side);
    init.send_cq = init.receive_cq = cq[side];
    init.attributes.retry_exponential = retry_exponential;
    qpn[side] = *pair[side].create_qp(init);
  }
  pair.connect(qpn[0], qpn[1]);
  // Each message is posted when the one before it is complete; two while all is well.
  unsigned done = 0, posted = 0;
  bool failed = false;
  const auto work = [&] {
    std::array<Completion, 4> out;
    const std::size_t n = pair[0].poll_cq(cq[0], out);
    for (std::size_t i = 0; i < n; ++i) failed |= out[i].status != WcStatus::success;
    done += static_cast<unsigned>(n);
    if (failed || done == 20) return true;
    if (posted > done || posted == 20) return false;
    const Sge sge{from.data(), static_cast<std::uint32_t>(from.size()), key};
    SendRequest request;
    request.sges = {&sge, 1};
    request.remote = {reinterpret_cast<std::uint64_t>(to.data()), rkey};
    REQUIRE(pair[0].post_send(qpn[0], request, pair.now()) == Errc::ok);
    if (++posted == 3)
      for (std::uint32_t i = 0; i < 16; ++i)
        if (i != seed % 16) pair.faults.dead_paths.insert(0x1000 + i);
    return false;
  };
  return pair.run_for(300s, work) && !failed && from == to;
}

TEST_CASE("one path: with all but one path of the only plane dead, transfers go on") {
  // Both sides have to find that path, of whose answers the other has none; before they searched
  // for it with retransmissions, probes and the answers to them, none of 60 did within the retries.
  unsigned lost = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) lost += !survives(seed, 10);
  CHECK(lost <= 10);
  lost = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) lost += !survives(seed, 25);  // for ever
  CHECK(lost == 0);
}

}  // namespace one_path_test
