// SPDX-License-Identifier: Apache-2.0
// Probes of a connected peer's paths through the control socket.
#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "host/control_rig.hpp"

using namespace mrc;
using namespace mrc::test;
using Json = nlohmann::json;

namespace control_probe_test {

Json only_peer(ControlClient& client) {
  const Json peers = client.must({{"request", "peers"}})["peers"];
  REQUIRE(peers.size() == 1);
  return peers[0];
}

Json probe(const Json& peer, std::uint64_t patience = 1000) {
  return {{"request", "probe"},
          {"lane", peer["lane"]},
          {"peer", peer["number"]},
          {"timeout_ms", patience}};
}

/// Probes until `holds` is true: on a busy machine answers may be late.
template <class Holds>
Json probed_until(ControlClient& client, const Json& request, Holds holds) {
  Json probes;
  (void)eventually([&] { return holds(probes = client.must(request)["probes"]); });
  return probes;
}

bool all_answered(const Json& probes) {
  for (const Json& path : probes)
    if (!path["rtt_ns"].is_number_unsigned()) return false;
  return true;
}

TEST_CASE("control: probe asks each path of a peer, with and without a helper thread") {
  for (const bool helper : {true, false}) {
    CAPTURE(helper);
    Config config = test_config();
    config.helper = helper;
    ControlledPair controlled(config);
    ControlClient client = controlled.client();
    const Json peer = only_peer(client);
    // Without a helper, the peer answers while its program polls.
    std::atomic<bool> done{false};
    std::thread poller([&] {
      while (!done && !helper) (void)controlled.pair.b.device.progress();
    });
    const Json probes = probed_until(client, probe(peer), all_answered);
    done = true;
    poller.join();
    REQUIRE(probes.size() == 8);
    CHECK(all_answered(probes));
    std::set<std::pair<std::uint32_t, unsigned>> seen;
    for (const Json& path : probes) {
      seen.emplace(path["ev"], path["plane"]);
      CHECK(path["sent"].get<unsigned>() >= 1);
      CHECK(path["sent"].get<unsigned>() <= 2);
      CHECK(path["rtt_ns"].get<std::uint64_t>() > 0);
    }
    CHECK(seen.size() == 8);
  }
}

TEST_CASE("control: probe in parts, and of one plane") {
  ControlledPair controlled;
  ControlClient client = controlled.client();
  Json request = probe(only_peer(client));
  request["count"] = 3;
  Json answer = client.must(request);
  CHECK(answer["probes"].size() == 3);
  CHECK(answer["next"] == 3);
  request["first"] = 6;
  answer = client.must(request);
  CHECK(answer["probes"].size() == 2);
  CHECK(!answer.contains("next"));
  request = probe(only_peer(client));
  request["plane"] = 1;
  answer = client.must(request);
  CHECK(answer["probes"].size() == 4);
  for (const Json& path : answer["probes"]) CHECK(path["plane"] == 1);
}

TEST_CASE("control: probe leaves denied paths and planes out of use alone, and ends in time") {
  Config config = test_config();
  config.faults = "loss=0";
  ControlledPair controlled(config);
  ControlClient client = controlled.client();
  const Json peer = only_peer(client);
  const auto probes_of = [&client](const Json& request) -> Json {
    return client.must(request)["probes"];
  };
  const Json all = probes_of(probe(peer));
  REQUIRE(all.size() == 8);
  const auto is_first = [&](const Json& path) {
    return path["plane"] == all[0]["plane"] && path["ev"] == all[0]["ev"];
  };
  const Json first{{"plane", all[0]["plane"]}, {"ev", all[0]["ev"]}};
  (void)client.must({{"request", "deny"}, {"paths", Json::array({first})}});
  for (const Json& path : probes_of(probe(peer)))
    if (is_first(path)) {
      CHECK(path["state"] == "denied");
      CHECK(path["sent"] == 0);
      CHECK(path["rtt_ns"].is_null());
    }
  (void)client.must({{"request", "allow"}, {"all", true}});
  (void)client.must({{"request", "plane"}, {"plane", 1}, {"enabled", false}});
  for (const Json& path : probes_of(probe(peer)))
    if (path["plane"] == 1) CHECK(path["sent"] == 0);
  (void)client.must({{"request", "plane"}, {"plane", 1}, {"enabled", true}});
  // What never arrives is asked twice, and not waited for without end.
  (void)client.must({{"request", "faults"}, {"schedule", "loss=1"}});
  for (const Json& path : probes_of(probe(peer, 40))) {
    CHECK(path["sent"].get<unsigned>() <= 2);
    CHECK(path["rtt_ns"].is_null());
  }
}

TEST_CASE("control: probe refuses what makes no sense") {
  ControlledPair controlled;
  ControlClient client = controlled.client();
  const Json peer = only_peer(client);
  CHECK(client.refused(probe(peer, 1001)) == "invalid_argument");
  CHECK(client.refused({{"request", "probe"}, {"lane", 0}}) == "invalid_argument");
  CHECK(client.refused({{"request", "probe"}, {"lane", 9}, {"peer", 0}}) == "not_found");
  CHECK(client.refused({{"request", "probe"}, {"lane", 0}, {"peer", 77}}) == "not_found");
  Json request = probe(peer);
  request["plane"] = 32;
  CHECK(client.refused(request) == "invalid_argument");
  request["plane"] = 9;  // none that the device has
  CHECK(client.must(request)["probes"].empty());
}

}  // namespace control_probe_test
