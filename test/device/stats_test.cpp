// SPDX-License-Identifier: Apache-2.0
#include "mrc/stats.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "mrc/stats_json.hpp"

namespace stats_test {

using nlohmann::json;

/// All numbers in a JSON value, however deep.
void collect(const json& value, std::multiset<std::uint64_t>& numbers) {
  if (value.is_number()) numbers.insert(value.get<std::uint64_t>());
  if (value.is_structured())
    for (const auto& part : value) collect(part, numbers);
}

/// A struct of 64-bit counters, each with a value of its own, must come out with each value once:
/// a counter that was added to the struct and not to the JSON fails here.
template <class T>
void check_complete() {
  constexpr std::size_t kCount = sizeof(T) / 8;
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  std::array<std::uint64_t, kCount> values{};
  std::multiset<std::uint64_t> expected;
  for (std::size_t i = 0; i < kCount; ++i) expected.insert(values[i] = 1000 + i);
  T stats;
  std::memcpy(static_cast<void*>(&stats), values.data(), sizeof stats);
  const json written = stats;
  std::multiset<std::uint64_t> numbers;
  collect(written, numbers);
  CHECK(numbers == expected);
  const T read = written.get<T>();
  CHECK(std::memcmp(&read, &stats, sizeof stats) == 0);
}

TEST_CASE("stats json: every counter is there once and reads back") {
  check_complete<mrc::port::PortStats>();
  check_complete<mrc::port::FaultStats>();
  check_complete<mrc::DropStats>();
  check_complete<mrc::EngineStats>();
}

TEST_CASE("stats json: a queue pair") {
  mrc::QpStats stats;
  stats.retransmits = 5;
  stats.smoothed_rtt_ns = 20'000;
  stats.outstanding = 7;
  stats.inflight = -3;
  stats.cwnd = 1 << 20;
  const json written = mrc::to_json(stats);
  CHECK(written["retransmits"] == 5);
  CHECK(written["smoothed_rtt_ns"] == 20'000);
  CHECK(written["outstanding"] == 7);
  CHECK(written["inflight"] == -3);
  // Two 32-bit fields share a word; the rest are 64 bit.
  CHECK(written.size() == sizeof(mrc::QpStats) / 8 + 1);
}

TEST_CASE("stats json: paths") {
  mrc::PathReport path;
  path.ev = mrc::Ev{0xC0011234};
  path.plane = 3;
  path.port_path = 9;
  path.state = "assumed_bad";
  path.active = true;
  path.packets = 10;
  path.losses = 2;
  path.times_bad = 1;
  const std::vector<mrc::PathReport> paths{path, {}};
  const json written = mrc::to_json(paths);
  REQUIRE(written.size() == 2);
  CHECK(written[0]["ev"] == 0xC0011234u);
  CHECK(written[0]["plane"] == 3);
  CHECK(written[0]["state"] == "assumed_bad");
  CHECK(written[0]["losses"] == 2);
  CHECK(written[0]["active"] == true);
  CHECK(written[0].size() == 16);
  const auto read = written[0].get<mrc::PathReport>();
  CHECK(read.ev == path.ev);
  CHECK(read.state == path.state);
  CHECK(read.times_bad == 1);
}

TEST_CASE("stats json: a device, there and back") {
  mrc::DeviceStats stats;
  stats.engine.tx_data = 100;
  stats.engine.drops.foreign = 4;
  stats.qps = 2;
  stats.cqs = 3;
  stats.mrs = 4;
  stats.pds = 5;
  stats.peers = 6;
  stats.helper_rounds = 7;
  mrc::PlaneStats plane;
  plane.address = "127.0.0.1:4791";
  plane.up = true;
  plane.enabled = false;
  plane.rx_disabled = 10;
  plane.port.tx_calls = 11;
  plane.faults.lost = 12;
  stats.planes = {plane, {}};
  mrc::LaneStats lane;
  lane.slot = 9;
  lane.engine.rx_data = 13;
  stats.lanes = {lane};
  const json written = mrc::to_json(stats);
  CHECK(written["engine"]["drops"]["foreign"] == 4);
  CHECK(written["planes"][0]["address"] == "127.0.0.1:4791");
  CHECK(written["planes"][0]["up"] == true);
  CHECK(written["planes"][1]["up"] == false);
  CHECK(written["planes"][0]["enabled"] == false);
  CHECK(written["planes"][0]["rx_disabled"] == 10);
  CHECK(written["planes"][0]["port"]["tx_calls"] == 11);
  CHECK(written["planes"][0]["faults"]["lost"] == 12);
  CHECK(written["lanes"][0]["slot"] == 9);
  CHECK(written["lanes"][0]["engine"]["rx_data"] == 13);
  const auto read = json::parse(written.dump()).get<mrc::DeviceStats>();
  CHECK(json(read) == written);
  CHECK(read.helper_rounds == 7);
  CHECK(read.pds == 5);
}

}  // namespace stats_test
