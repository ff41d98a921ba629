// SPDX-License-Identifier: Apache-2.0
// Packets of sizes that are no powers of two: all lengths around their multiples, at all offsets.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace mtu_test {

/// One queue pair on each side, of packets of `mtu` bytes, and a completion queue for everything.
struct MtuRig {
  MtuRig(std::uint32_t mtu, std::uint64_t seed) : pair(EnginePair::Setup{}, seed) {
    for (unsigned side = 0; side < 2; ++side) {
      cq[side] = *pair[side].create_cq(512);
      engine::QpInit init;
      init.pd = pair.pd(side);
      init.send_cq = init.receive_cq = cq[side];
      init.attributes.mtu = mtu;
      init.attributes.retry_exponential = 25;
      qpn[side] = *pair[side].create_qp(init);
    }
    pair.connect(qpn[0], qpn[1]);
  }
  EnginePair pair;
  CqId cq[2];
  Qpn qpn[2];
};

Faults mtu_faults(double rate) {
  Faults f;
  f.loss = f.duplicate = f.trim = rate;
  f.reorder = 4 * rate;
  return f;
}

std::vector<std::uint32_t> lengths_around(std::uint32_t mtu) {
  std::vector<std::uint32_t> all{0, 1, 127, 128, 129};
  for (std::uint32_t k = 1; k <= 3; ++k)
    for (std::uint32_t more = 0; more <= 4; ++more) all.push_back(k * mtu + more - 2);
  return all;
}

TEST_CASE("MTU: every length around a multiple, at every offset in a word, with losses") {
  for (const std::uint32_t mtu : {384u, 1408u, 3968u}) {
    for (std::uint32_t offset = 0; offset < 8; ++offset) {
      CAPTURE(mtu);
      CAPTURE(offset);
      MtuRig rig(mtu, mtu + offset);
      if (offset % 2 == 1) rig.pair.faults = mtu_faults(0.1);
      std::vector<std::uint8_t> source(4 * mtu), target(4 * mtu + 16);
      for (std::size_t i = 0; i < source.size(); ++i)
        source[i] = static_cast<std::uint8_t>(i % 251 + 1);
      const std::uint32_t lkey =
          rig.pair.register_memory(0, source.data(), source.size(), Access::none);
      const std::uint32_t rkey =
          rig.pair.register_memory(1, target.data(), target.size(), Access::remote_write);
      std::uint64_t packets = 0;
      for (const std::uint32_t length : lengths_around(mtu)) {
        CAPTURE(length);
        std::fill(target.begin(), target.end(), std::uint8_t{0});
        REQUIRE(rig.pair[1].post_receive(rig.qpn[1], 7) == Errc::ok);
        const Sge sge{source.data() + offset, length, lkey};
        SendRequest r;
        r.sges = {&sge, 1};
        r.opcode = SendOpcode::write_imm;
        r.remote = {reinterpret_cast<std::uint64_t>(target.data()) + offset, rkey};
        REQUIRE(rig.pair[0].post_send(rig.qpn[0], r, rig.pair.now()) == Errc::ok);
        Completion sent, received;
        unsigned n = 0;
        REQUIRE(rig.pair.run_for(5s, [&] {
          n += static_cast<unsigned>(rig.pair[0].poll_cq(rig.cq[0], {&sent, 1}));
          n += static_cast<unsigned>(rig.pair[1].poll_cq(rig.cq[1], {&received, 1}));
          return n == 2;
        }));
        REQUIRE(sent.status == WcStatus::success);
        REQUIRE(received.byte_len == length);
        std::vector<std::uint8_t> wanted(target.size());
        std::copy_n(source.begin() + offset, length, wanted.begin() + offset);
        REQUIRE(target == wanted);
        packets += std::max(1u, (length + mtu - 1) / mtu);
      }
      CHECK(rig.pair[1].find_qp(rig.qpn[1])->rx.rx_packets == packets);
    }
  }
}

TEST_CASE("MTU: random traffic in packets that are no power of two") {
  for (const std::uint32_t mtu : {384u, 1408u, 3968u, 32'640u}) {
    CAPTURE(mtu);
    EnginePair pair(EnginePair::Setup{}, mtu);
    TrafficOptions o;
    o.messages = 60;
    o.max_size = 5 * mtu;
    o.both = true;
    o.relaxed = false;
    o.attributes.mtu = mtu;
    o.attributes.retry_exponential = 25;
    Traffic traffic(pair, o, mtu);
    pair.faults = mtu_faults(0.05);
    REQUIRE(traffic.run(20s));
    traffic.check();
  }
}

}  // namespace mtu_test
