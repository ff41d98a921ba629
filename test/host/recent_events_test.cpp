// SPDX-License-Identifier: Apache-2.0
// Which events a device keeps for those who ask later.
#include <doctest/doctest.h>

#include <vector>

#include "mrc/control/device_control.hpp"

using namespace mrc;
using Json = nlohmann::json;

namespace recent_events_test {

std::vector<std::uint64_t> numbers(const Json& events) {
  std::vector<std::uint64_t> all;
  for (const Json& event : events) all.push_back(event["number"]);
  return all;
}

TEST_CASE("events: floods of paths do not displace what planes and queue pairs did") {
  detail::RecentEvents events(4);
  CHECK(events.newest() == 0);
  CHECK(events.since(0).empty());
  CHECK(events.add({{"event", "plane_down"}, {"plane", 2}})["number"] == 1);
  for (int i = 0; i < 50; ++i) (void)events.add({{"event", i % 2 == 0 ? "path_bad" : "path_good"}});
  (void)events.add({{"event", "qp_error"}});
  CHECK(events.newest() == 52);
  CHECK(numbers(events.since(0)) == std::vector<std::uint64_t>{1, 48, 49, 50, 51, 52});
  CHECK(events.since(0)[0]["plane"] == 2);
  CHECK(numbers(events.since(49)) == std::vector<std::uint64_t>{50, 51, 52});
  CHECK(events.since(52).empty());
  for (int i = 0; i < 4; ++i) (void)events.add({{"event", "plane_up"}});
  CHECK(numbers(events.since(0)) == std::vector<std::uint64_t>{48, 49, 50, 51, 53, 54, 55, 56});
}

}  // namespace recent_events_test
