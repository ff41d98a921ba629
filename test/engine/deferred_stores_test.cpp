// SPDX-License-Identifier: Apache-2.0
// Memory without relaxed ordering: the end of a message is not visible before everything in front
// of it, so that a program may poll the last bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using wire::Opcode;

namespace deferred_stores_test {

struct Packet {
  Single::Data data;
  std::uint32_t message;
};

/// A stream of messages of random lengths, in packets of at most 1,024 bytes.
std::vector<Packet> stream(Random& r, unsigned messages) {
  std::vector<Packet> all;
  std::size_t offset = 0;
  for (std::uint32_t m = 0; m < messages; ++m) {
    const std::uint32_t length = r.chance(0.1) ? 0 : 1 + r.below(r.chance(0.5) ? 20 : 4000);
    const std::uint32_t packets = std::max(1u, (length + 1023) / 1024);
    for (std::uint32_t k = 0; k < packets; ++k) {
      const bool first = k == 0, last = k + 1 == packets;
      Single::Data d;
      d.n = static_cast<std::uint32_t>(all.size());
      d.opcode = first && last ? Opcode::write_only
                 : first       ? Opcode::write_first
                 : last        ? Opcode::write_last
                               : Opcode::write_middle;
      d.offset = offset + k * 1024;
      d.length = std::min(1024u, length - k * 1024);
      d.dma_length = length;
      d.msn = m;
      all.push_back({d, m});
    }
    offset += length + 8;
  }
  return all;
}

TEST_CASE("deferred stores: checked at every delivered packet, in random orders with duplicates") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed ", seed);
    Random r(seed);
    Single::Setup setup;
    setup.access = Access::local_write | Access::remote_write;
    Single s(setup);
    const std::vector<Packet> packets = stream(r, 40);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      order.push_back(i);
      if (r.chance(0.2)) order.push_back(i);
    }
    const std::uint32_t reach = 1 + r.below(40);
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      std::swap(order[i], order[std::min(order.size() - 1, i + r.below(reach))]);

    std::vector<bool> arrived(packets.size());
    for (const std::size_t i : order) {
      s.data(packets[i].data);
      arrived[i] = true;
      bool all_before = true;
      for (std::size_t k = 0; k < packets.size(); ++k) {
        const Single::Data& d = packets[k].data;
        all_before = all_before && arrived[k];
        const bool last = wire::is_last(d.opcode);
        const std::uint32_t tail = last ? std::min(d.length, 8u) : 0;
        const auto* begin = s.target.data() + d.offset;
        const auto visible = [](std::uint8_t b) { return b == 0x11; };
        // Everything but the tail is placed on arrival; the tail only when nothing is missing.
        REQUIRE(std::all_of(begin, begin + d.length - tail, visible) ==
                (arrived[k] || d.length == tail));
        if (tail > 0) {
          REQUIRE(std::any_of(begin + d.length - tail, begin + d.length, visible) == all_before);
          REQUIRE(std::all_of(begin + d.length - tail, begin + d.length, visible) == all_before);
        }
      }
    }
    CHECK(s.qp().rx.messages == 40);
    CHECK(s.qp().rx.deferred.head == engine::DeferredStores::kNone);
  }
}

TEST_CASE("deferred stores: with relaxed ordering everything is visible on arrival") {
  Single s;
  s.data({.n = 5, .fill = 0x22});
  CHECK(std::count(s.target.begin(), s.target.begin() + 64, 0x22) == 64);
}

TEST_CASE("deferred stores: not written to a region that was withdrawn meanwhile") {
  Single::Setup setup;
  setup.access = Access::local_write | Access::remote_write;
  Single s(setup);
  s.data({.n = 1});
  CHECK(s.target[55] == 0x11);
  CHECK(s.target[56] == 0xEE);
  REQUIRE(s.engine.deregister_memory(s.rkey) == Errc::ok);
  s.data({.n = 0, .length = 0});
  CHECK(s.target[56] == 0xEE);
  CHECK(s.qp().state == QpState::rts);
}

TEST_CASE("deferred stores: given back when a queue pair fails, is reset or destroyed") {
  Single::Setup setup;
  setup.access = Access::local_write | Access::remote_write;
  setup.options.deferred_stores = 4;
  Single s(setup);
  for (unsigned round = 0; round < 3; ++round) {
    for (std::uint32_t n = 1; n <= 4; ++n) s.data({.n = n});
    CHECK(only(s.transmit(), Opcode::nack).empty());
    s.data({.n = 5});
    CHECK(only(s.transmit(), Opcode::nack).size() == 1);
    if (round == 0) REQUIRE(s.engine.to_error(s.qpn) == Errc::ok);
    if (round < 2) {
      REQUIRE(s.engine.to_reset(s.qpn) == Errc::ok);
    } else {
      REQUIRE(s.engine.destroy_qp(s.qpn) == Errc::ok);
      s.qpn = s.create();
    }
    s.connect();
  }
  for (std::uint32_t n = 1; n <= 4; ++n) s.data({.n = n});
  CHECK(only(s.transmit(), Opcode::nack).empty());
}

}  // namespace deferred_stores_test
