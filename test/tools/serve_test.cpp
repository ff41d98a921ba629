// SPDX-License-Identifier: Apache-2.0
// Parts of `mrc_ctl serve` that read what others send, and what it writes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "mrc_ctl/serve/device_watch.hpp"
#include "mrc_ctl/serve/host_port.hpp"
#include "mrc_ctl/serve/kept_events.hpp"
#include "mrc_ctl/serve/metrics.hpp"
#include "mrc_ctl/serve/page_files.hpp"
#include "mrc_ctl/serve/peer_watch.hpp"
#include "mrc_ctl/serve/site.hpp"
#include "mrc_ctl/serve/snapshot.hpp"

namespace serve_test {

using namespace mrc::ctl_tool;

/// A host with one device of each kind of trouble.
HostSnapshot some_host() {
  HostSnapshot host;
  DeviceSnapshot device;
  device.id = "00ff";
  device.pid = 7;
  device.program = "a\"b\\c\nd";
  device.up = true;
  device.planes.push_back({"10.0.0.1:4791", true, true, {1, 2, 3, 4, 5, 6, 7, 8}});
  PeerSnapshot peer;
  peer.addresses = "10.0.0.2:4791, 10.0.1.2:4791";
  peer.rtt_ns = 1'500'000;
  for (const std::uint32_t ev : {1u, 2u, 2u}) {  // one twice, as profiles may have it
    PathSnapshot path;
    path.ev = ev;
    path.state = ev == 1 ? "good" : "assumed_bad";
    path.active = true;
    path.counters[0] = 10;
    peer.paths.push_back(path);
  }
  device.peers.push_back(peer);
  host.devices.push_back(device);
  DeviceSnapshot silent;
  silent.id = "01";
  silent.pid = 8;
  silent.seen = 1.5;
  silent.planes.push_back({"10.0.0.1:4791", false, true, {}});
  host.devices.push_back(silent);
  return host;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

const std::string kDevice = R"(pid="7",program="a\"b\\c\nd",device="00ff")";
const std::string kPeer = kDevice + R"(,peer="10.0.0.2:4791",lane="0",peer_number="0")";

TEST_CASE("serve: metrics have names, types, explanations, and labels with escapes") {
  const std::string text = metrics_text(some_host(), false);
  CHECK(has_line(text, "openmrc_devices 2"));
  CHECK(has_line(text, "# TYPE openmrc_plane_sent_bytes_total counter"));
  CHECK(has_line(text, "openmrc_plane_sent_bytes_total{" + kDevice + ",plane=\"0\"} 1"));
  CHECK(has_line(text, "openmrc_peer_round_trip_seconds{" + kPeer + "} 0.0015"));
  CHECK(has_line(text, "openmrc_peer_sent_packets_total{" + kPeer + ",plane=\"0\"} 30"));
  CHECK(has_line(text, "openmrc_peer_paths{" + kPeer + ",plane=\"0\",state=\"assumed_bad\"} 2"));
  CHECK(text.find("openmrc_path_") == std::string::npos);
}

TEST_CASE("serve: a device that does not answer has no metrics but that, and since when") {
  const std::string text = metrics_text(some_host(), true);
  CHECK(has_line(text, R"(openmrc_device_up{pid="8",program="",device="01"} 0)"));
  CHECK(has_line(text,
                 R"(openmrc_device_answer_time_seconds{pid="8",program="",device="01"} 1.500)"));
  CHECK(text.find("openmrc_queue_pairs{pid=\"8\"") == std::string::npos);
  CHECK(text.find("openmrc_plane_up{pid=\"8\"") == std::string::npos);
  CHECK(to_json(some_host())["devices"][1]["seen"] == 1.5);
}

TEST_CASE("serve: each path is one series, however often it is reported") {
  const std::string text = metrics_text(some_host(), true);
  const std::string usable = "openmrc_path_usable{" + kPeer + ",plane=\"0\",ev=\"0x";
  CHECK(has_line(text, usable + "1\"} 1"));
  CHECK(has_line(text, usable + "2\"} 0"));
  CHECK(text.find(usable + "2") == text.rfind(usable + "2"));
}

TEST_CASE("serve: reports of any shape are read, what is missing counts as nothing") {
  const char* kReports[] = {
      "null",
      "[]",
      "3",
      "\"x\"",
      "{}",
      R"({"ev":"x","plane":-1,"state":3,"active":1})",
      R"({"ev":1e300,"plane":99999999999,"packets":-5,"bytes":null,"rtt_ns":1.5})",
      R"({"planes":[null,[],{"port":3},{"port":{"tx_bytes":"x"},"up":"yes"}],"engine":[]})",
      R"({"pid":[],"program":{},"opened":"x","uid":-1})"};
  for (const char* text : kReports) {
    CAPTURE(text);
    const Json json = Json::parse(text);
    const PathSnapshot path = path_of(json);
    CHECK(path.counters[0] == 0);
    (void)peer_of(json);
    (void)plane_of(json);
    DeviceSnapshot device;
    take_hello(device, json);
    take_counters(device, json);
    CHECK(device.program.empty());
    CHECK(event_of(json, device, 3)["number"] == 3);
    HostSnapshot host;
    host.devices.push_back(device);
    CHECK(to_json(host)["devices"].size() == 1);
  }
  CHECK(plane_of(Json::parse(R"({"rx_bad_icrc":4,"port":{"tx_bytes":5}})")).counters[6] == 4);
  CHECK(event_of(Json::parse(R"({"a":[1],"b":2})"), {}, 1).contains("b"));
  CHECK_FALSE(event_of(Json::parse(R"({"a":[1],"b":2})"), {}, 1).contains("a"));
}

TEST_CASE("serve: what another host sends is a snapshot, or is not shown") {
  CHECK(is_snapshot(R"({"host":"h1","devices":[]})"));
  CHECK(is_snapshot(" {\"host\":\"h1\",\"devices\":[{\"a\":[{}]}],\"b\":2}\n"));
  for (const std::string& body :
       {std::string(), std::string("x"), std::string("[]"), std::string("{}"),
        std::string("\xef\xbb\xbf{\"host\":\"h1\",\"devices\":[]}"),
        std::string("{\"host\":\"h1\",\"devices\":[]}\0x", 27),
        std::string(R"({"host":1,"devices":[]})"), std::string(R"({"host":"h1","devices":{}})"),
        R"({"host":"h1","devices":)" + std::string(100'000, '['),
        R"({"host":"h1","devices":[)" + std::string(100, '[') + std::string(100, ']') + "]}",
        std::string("{\"host\":\"\xff\",\"devices\":[]}")}) {
    CAPTURE(body.substr(0, 60));
    CHECK_FALSE(is_snapshot(body));
  }
}

TEST_CASE("serve: devices of other users count if they are named") {
  std::vector<DeviceSnapshot> devices(4);
  for (std::size_t i = 0; i < devices.size(); ++i) devices[i].id = std::to_string(i);
  devices[0].uid = devices[2].uid = 65'534;  // devices[1] has not said whose it is
  devices[3].uid = 0;
  Options o;
  const auto mine = counting(o, devices);
  REQUIRE(mine.size() == 1);
  CHECK(mine[0].id == "3");
  CHECK(devices.size() == 4);
  o.name = "mrc_perf";
  CHECK(counting(o, devices).size() == 4);
}

TEST_CASE("serve: other users' events push out none of others") {
  KeptEvents events;
  DeviceSnapshot device;
  CHECK(events.newest() == 0);
  CHECK(events.after(0).empty());
  for (int i = 0; i < 200; ++i) events.add({{"event", "own"}}, device, true);
  for (int i = 0; i < 10'000; ++i) events.add({{"event", "theirs"}}, device, false);
  events.add({{"event", "own"}}, device, true);
  CHECK(events.newest() == 10'201);
  const auto count = [](const std::vector<Json>& all, const char* name) {
    return std::count_if(all.begin(), all.end(), [&](const auto& e) { return e["event"] == name; });
  };
  const std::vector<Json> all = events.after(0), few = events.after(0, 100);
  CHECK(count(all, "own") == 201);
  CHECK(count(all, "theirs") == KeptEvents::kMostOfOthers);
  CHECK(all.front()["number"] == 1);
  CHECK(all.back()["number"] == 10'201);
  CHECK(count(few, "own") == 100);
  CHECK(count(few, "theirs") == 100);
  CHECK(few.front()["number"] == 102);
  CHECK(events.after(10'199).size() == 2);
  for (std::size_t i = 0; i < 2 * KeptEvents::kMost; ++i) events.add({}, device, true);
  CHECK(events.after(0).size() == KeptEvents::kMost + KeptEvents::kMostOfOthers);
}

TEST_CASE("serve: hosts and ports") {
  CHECK(parse_host_port("node7:80") == HostPort{"node7", 80});
  CHECK(parse_host_port("[fd00::1]:80") == HostPort{"fd00::1", 80});
  CHECK(parse_host_port("node7", 9) == HostPort{"node7", 9});
  CHECK(parse_host_port("[fe80::1%eth0]:80") == HostPort{"fe80::1%eth0", 80});
  CHECK(parse_host_port("fe80::1%eth0", 9) == HostPort{"fe80::1%eth0", 9});
  CHECK(parse_host_port("fd00::1", 9) == HostPort{"fd00::1", 9});
  CHECK(to_string({"fd00::1", 80}) == "[fd00::1]:80");
  CHECK(to_string({"node7", 80}) == "node7:80");
  for (const char* text : {"", ":80", "node7", "node7:", "node7:x", "node7:80x", "node7:65536",
                           "[fd00::1", "[fd00::1]80", "[x]:80", "[fe80::1%]:80", "[fe80::1%a/b]:80",
                           "a b:80", "fd00::1:80", "a/b:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_host_port(text).has_value());
  }
}

TEST_CASE("serve: which names the server goes by") {
  const AllowedHosts loopback({"127.0.0.1", 9794}, "node7", {"Metrics.Example"});
  for (const char* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1:9794", "[::1]:9794", "node7", "metrics.example:443"})
    CHECK_MESSAGE(loopback.allow(host), host);
  for (const char* host : {"", "evil.example", "localhost.evil.example", "10.0.0.1", "localhost:x",
                           "a b", "localhost:9794:1", "127.0.0.1@evil.example", "[::2]"})
    CHECK_MESSAGE(!loopback.allow(host), host);
  const AllowedHosts all({"0.0.0.0", 9794}, "node7", {});
  CHECK(all.allow("10.0.0.1:9794"));
  CHECK(all.allow("[fd00::1]:9794"));
  CHECK_FALSE(all.allow("evil.example:9794"));
}

TEST_CASE("serve: a secret is equal to itself only") {
  CHECK(same_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "Abc"}) CHECK_FALSE(same_secret("abc", other));
}

TEST_CASE("serve: the page is in the program, and whole") {
  for (const char* path :
       {"/", "/page.css", "/page.js", "/model.js", "/verdict.js", "/dom.js", "/icon.svg"}) {
    const PageFile* file = find_page_file(path);
    REQUIRE_MESSAGE(file != nullptr, path);
    CHECK(file->content.size() > 100);
    CHECK(file->content.ends_with(">\n") == (path == std::string("/") || path[1] == 'i'));
  }
  CHECK(find_page_file("/nothing") == nullptr);
  CHECK(find_page_file("/")->content.find("</html>") != std::string_view::npos);
}

}  // namespace serve_test
