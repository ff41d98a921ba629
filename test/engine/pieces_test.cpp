// SPDX-License-Identifier: Apache-2.0
// Bursts that leave in one piece and vanish, where a kernel or a NIC cuts them wrongly.
#include <doctest/doctest.h>

#include <functional>
#include <span>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace pieces_test {

using Piece = std::span<const wire::TxPacket>;

EnginePair::Setup setup_of(unsigned planes, unsigned paths) {
  EnginePair::Setup s;
  s.planes = planes;
  s.paths = paths;
  s.parts = true;  // OpenMRC peers, which answer probes of full size
  s.options.burst = 16;
  s.options.segmenting_planes = (PlaneMask{1} << planes) - 1;
  return s;
}

TrafficOptions traffic_of(unsigned messages) {
  TrafficOptions o;
  o.messages = messages;
  o.attributes.mtu = 1408;
  o.max_size = 64 * 1408;
  o.relaxed = false;
  return o;
}

bool has_shorter_end(Piece piece) {
  return piece.back().transport_length() < piece.front().transport_length();
}

TEST_CASE("pieces: where they vanish packets leave one by one, from the start on") {
  const std::function<bool(Piece)> all = [](Piece) { return true; };
  const std::function<bool(Piece)> equal = [](Piece piece) { return !has_shorter_end(piece); };
  for (const auto& gone : {all, equal}) {
    for (const unsigned planes : {1u, 4u}) {
      for (const unsigned paths : {1u, 4u}) {
        CAPTURE(planes);
        CAPTURE(paths);
        EnginePair pair(setup_of(planes, paths), planes * 8 + paths);
        std::uint64_t lost = 0;
        pair.pieces = [&](unsigned, Piece piece) {
          if (piece.size() == 1 || !gone(piece)) return piece.size();
          lost += piece.size();
          return std::size_t{0};
        };
        Traffic traffic(pair, traffic_of(600), 5);
        REQUIRE(run_to(pair, traffic, 300, 20s));
        for (unsigned side = 0; side < 2; ++side)
          CHECK(pair[side].planes_sent_singly() == (PlaneMask{1} << planes) - 1);
        lost = 0;
        const std::uint64_t before = pair[0].stats().tx_retransmits;
        REQUIRE(traffic.run(20s));
        CHECK(lost == 0);
        CHECK(pair[0].stats().tx_retransmits == before);
        traffic.check();
      }
    }
  }
}

TEST_CASE("pieces: those with a shorter end alone vanish, in one plane, towards one side") {
  EnginePair pair(setup_of(2, 4), 7);
  pair.pieces = [&](unsigned side, Piece piece) {
    const bool gone = side == 0 && piece.front().plane == 1 && has_shorter_end(piece);
    return piece.size() > 1 && gone ? 0 : piece.size();
  };
  Traffic traffic(pair, traffic_of(2000), 7);
  REQUIRE(run_to(pair, traffic, 1000, 20s));
  pair.run_for(100ms);  // a trial takes longer than a thousand messages
  CHECK(pair[0].planes_sent_singly() == plane_bit(1));
  CHECK(pair[1].planes_sent_singly() == 0);
  unsigned told = 0;
  pair[0].take_piece_changes([&](const engine::Peer&, PlaneMask planes) {
    CHECK(planes == plane_bit(1));
    ++told;
  });
  pair[0].take_piece_changes([&](const engine::Peer&, PlaneMask) { ++told; });
  CHECK(told == 1);
  REQUIRE(traffic.run(20s));
  traffic.check();
}

TEST_CASE("pieces: they begin to vanish under traffic, and no longer do minutes later") {
  EnginePair pair(setup_of(1, 4), 9);
  bool gone = false;
  std::uint64_t joined = 0;
  pair.pieces = [&](unsigned side, Piece piece) {
    joined += side == 0 && piece.size() > 1;
    return piece.size() > 1 && gone ? 0 : piece.size();
  };
  Traffic traffic(pair, traffic_of(2000), 9);
  REQUIRE(run_to(pair, traffic, 300, 20s));
  CHECK(pair[0].planes_sent_singly() == 0);
  gone = true;
  REQUIRE(run_to(pair, traffic, 600, 20s));
  CHECK(pair[0].planes_sent_singly() == plane_bit(0));
  joined = 0;
  REQUIRE(run_to(pair, traffic, 900, 20s));
  CHECK(joined == 0);
  pair.run_for(3 * path::PieceTrials::kRetry);
  CHECK(joined > 0);  // trials
  CHECK(pair[0].planes_sent_singly() == plane_bit(0));
  gone = false;
  pair.run_for(path::PieceTrials::kRetry + 1s);
  CHECK(pair[0].planes_sent_singly() == 0);
  joined = 0;
  REQUIRE(traffic.run(20s));
  CHECK(joined > 100);
  traffic.check();
}

TEST_CASE("pieces: a queue that drops their ends, or loss at random, changes nothing") {
  for (const bool ends : {true, false}) {
    CAPTURE(ends);
    EnginePair pair(setup_of(2, 4), 11);
    unsigned room = 0;
    pair.pieces = [&](unsigned, Piece piece) -> std::size_t {
      if (!ends) return piece.size();
      room = (room + 5) % 12;  // what the queue has room for
      return std::min<std::size_t>(piece.size(), room);
    };
    if (!ends) pair.faults.loss = 0.2;
    TrafficOptions o = traffic_of(1000);
    o.attributes.retry_exponential = 25;
    Traffic traffic(pair, o, 11);
    const auto singly = [&] { return pair[0].planes_sent_singly() | pair[1].planes_sent_singly(); };
    bool ever = false;
    REQUIRE(pair.run_for(100s, [&] {
      traffic.work();
      ever = ever || singly() != 0;
      return traffic.completed() >= 1000;
    }));
    CHECK_FALSE(ever);
    CHECK(pair[0].stats().tx_retransmits > 100);
    REQUIRE(traffic.run(20s));
    traffic.check();
  }
}

TEST_CASE("pieces: ports that send each packet by itself are not tried") {
  EnginePair::Setup s = setup_of(1, 4);
  s.options.segmenting_planes = 0;
  EnginePair pair(s, 13);
  pair.pieces = [&](unsigned, Piece piece) { return piece.size(); };
  Traffic traffic(pair, traffic_of(100), 13);
  REQUIRE(traffic.run(20s));
  CHECK(pair[0].stats().ev_probes_sent == 0);
}

}  // namespace pieces_test
