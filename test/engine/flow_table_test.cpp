// SPDX-License-Identifier: Apache-2.0
// Connection tracking whose table is full: packets of flows (addresses and UDP source port: a path)
// that are not in it vanish. Each direction of a path is an entry, since replies come from another
// port than packets went to.
#include <doctest/doctest.h>

#include <map>
#include <tuple>

#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace flow_table_test {

class FlowTable {
 public:
  FlowTable(EnginePair& pair, std::size_t room) : room_(room) {
    pair.filter = [this, &pair](unsigned side, const wire::TxPacket& p,
                                const std::vector<std::uint8_t>&) {
      return passes({side, p.plane, value(p.entropy)}, pair.now());
    };
  }
  std::uint64_t lost = 0;

 private:
  using Flow = std::tuple<unsigned, Plane, std::uint32_t>;
  static constexpr Duration kLifetime = 30s;  // of entries without a reply

  bool passes(const Flow& flow, Time now) {
    std::erase_if(flows_, [&](const auto& f) { return now - f.second > kLifetime; });
    const bool known = flows_.count(flow) != 0;
    if (!known && flows_.size() >= room_) {
      ++lost;
      return false;
    }
    flows_[flow] = now;
    return true;
  }

  const std::size_t room_;
  std::map<Flow, Time> flows_;
};

EnginePair::Setup setup_of(unsigned planes) {
  EnginePair::Setup s;
  s.planes = planes;
  s.paths = 16;
  s.parts = true;
  s.options.burst = 8;
  return s;
}

TrafficOptions traffic_of(unsigned messages) {
  TrafficOptions o;
  o.messages = messages;
  o.attributes.mtu = 1408;
  o.max_size = 64 * 1408;
  return o;
}

TEST_CASE("flow table: one that is full leaves fewer paths, on which all goes well") {
  for (const unsigned planes : {1u, 4u}) {
    const unsigned paths = planes * 16;  // of a side
    for (const unsigned room : {2 * paths - 2, paths * 3 / 2, paths + 4}) {
      CAPTURE(planes);
      CAPTURE(room);
      EnginePair pair(setup_of(planes), room);
      FlowTable table(pair, room);
      Traffic traffic(pair, traffic_of(3000), room);
      REQUIRE(pair.run_for(20s, [&] {
        traffic.work();
        return traffic.completed() >= 1000;
      }));
      CHECK(table.lost > 0);
      const std::uint64_t again = pair[0].stats().tx_retransmits;
      const std::uint64_t sent = pair[0].stats().tx_data;
      REQUIRE(traffic.run(20s));
      CHECK((pair[0].stats().tx_retransmits - again) * 100 <= pair[0].stats().tx_data - sent);
      traffic.check();
    }
  }
}

}  // namespace flow_table_test
