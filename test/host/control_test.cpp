// SPDX-License-Identifier: Apache-2.0
// What a device tells through its control socket, what can be changed, and what it says of queue
// pairs that make no progress.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "host/control_rig.hpp"
#include "mrc/control/client.hpp"
#include "mrc/core/error.hpp"

using namespace mrc;
using namespace mrc::test;
using Json = nlohmann::json;

TEST_CASE("control: a device has a socket while it is open, for its user alone") {
  const OwnFolder folder;
  Config config = test_config();
  config.control = folder.path;
  {
    const Device device(config), other(config);
    const auto sockets = control::sockets_in(folder.path);
    REQUIRE(sockets.size() == 2);
    CHECK(sockets[0].name.pid == ::getpid());
    CHECK(sockets[0].name.id != sockets[1].name.id);
    struct stat found {};
    REQUIRE(::stat(sockets[0].path.c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0600);
    ControlClient client(sockets[0].path);
    CHECK(client.hello()["event"] == "hello");
    CHECK(client.hello()["protocol"] == 1);
    CHECK(client.hello()["pid"] == ::getpid());
    CHECK(client.hello()["planes"] == 2);
  }
  CHECK(control::sockets_in(folder.path).empty());
  config.control = "off";
  const Device silent(config);
  CHECK(control::sockets_in(folder.path).empty());
}

TEST_CASE("control: a folder that can't be used is an error that names it") {
  const OwnFolder folder;
  Config config = test_config();
  const auto fails = [&](const std::string& path, const char* why) {
    config.control = path;
    try {
      const Device device(config);
      FAIL("opened");
    } catch (const Error& error) {
      INFO(error.what());
      CHECK(std::string(error.what()).find(path) != std::string::npos);
      CHECK(std::string(error.what()).find(why) != std::string::npos);
    }
  };
  fails(folder.path + "/not/there", "can't be made");
  std::ofstream(folder.path + "/file") << "x";
  fails(folder.path + "/file", "is no folder");
  std::filesystem::create_directory(folder.path + "/open");
  REQUIRE(::chmod((folder.path + "/open").c_str(), 0777) == 0);
  fails(folder.path + "/open", "not sticky");
  fails(folder.path + "/" + std::string(120, 'x'), "characters");
  CHECK_THROWS_AS(config.set("control", "relative/path"), Error);
  CHECK_THROWS_AS(config.set("control", ""), Error);
}

TEST_CASE("control: requests tell what the API tells") {
  ControlledPair controlled;
  Pair& pair = controlled.pair;
  pair.copy_all();
  ControlClient client = controlled.client();

  const Json planes = client.must({{"request", "planes"}})["planes"];
  REQUIRE(planes.size() == 2);
  CHECK(planes[0]["up"] == true);
  CHECK(planes[0]["port"]["tx_packets"].get<std::uint64_t>() > 0);

  const Json qps = client.must({{"request", "queue_pairs"}})["queue_pairs"];
  REQUIRE(qps.size() == 1);
  CHECK(qps[0]["qpn"] == value(pair.a.qps[0].qpn()));
  CHECK(qps[0]["remote_qpn"] == value(pair.b.qps[0].qpn()));
  CHECK(qps[0]["state"] == "RTS");
  CHECK(qps[0]["error"] == "");
  CHECK(qps[0]["waits_for"] == "nothing");
  CHECK(qps[0]["stats"]["writes_completed"].get<std::uint64_t>() > 0);

  // On a busy machine a path may be out of use for a moment.
  const auto settled = [&](const char* list, auto&& holds, Json request) {
    Json answer;
    (void)eventually([&] { return holds(answer = client.must(request)[list]); });
    return answer;
  };
  const Json peers =
      settled("peers", [](const Json& all) { return all.size() == 1 && all[0]["paths_up"] == 8; },
              {{"request", "peers"}});
  REQUIRE(peers.size() == 1);
  CHECK(peers[0]["number"] == qps[0]["peer"]);
  CHECK(peers[0]["paths"] == 8);
  CHECK(peers[0]["paths_up"] == 8);
  CHECK(peers[0]["backups"] == 0);
  CHECK(peers[0]["foreign"] == false);
  const auto plane_names = pair.b.device.plane_names();
  CHECK(peers[0]["addresses"] == plane_names[0] + ", " + plane_names[1]);

  const Json paths =
      settled("paths", [](const Json& all) { return all.size() == 8 && all[0]["state"] == "good"; },
              {{"request", "paths"}, {"lane", 0}, {"peer", peers[0]["number"]}});
  REQUIRE(paths.size() == 8);
  std::uint64_t packets = 0;
  for (const Json& path : paths) packets += path["packets"].get<std::uint64_t>();
  const std::uint64_t sent = pair.a.device.stats().engine.tx_data;
  CHECK(packets >= sent);  // and what was sent again
  CHECK(paths[0]["state"] == "good");

  const Json counters = client.must({{"request", "counters"}})["counters"];
  CHECK(counters["engine"]["tx_data"] == sent);
  CHECK(counters["qps"] == 1);
  CHECK(client.must({{"request", "config"}})["options"]["paths"] == "4");
  CHECK(client.must({{"request", "process"}})["version"] == version_string());

  // The same in parts.
  const Json part =
      client.must({{"request", "paths"}, {"lane", 0}, {"peer", peers[0]["number"]}, {"count", 3}});
  CHECK(part["paths"].size() == 3);
  CHECK(part["next"] == 3);
  const Json rest = client.must({{"request", "paths"},
                                 {"lane", 0},
                                 {"peer", peers[0]["number"]},
                                 {"first", 3},
                                 {"count", 5}});
  CHECK(rest["paths"].size() == 5);
  CHECK(!rest.contains("next"));

  // What never leaves: tags and keys. The tag of a connection is in no answer.
  const std::string tag = std::to_string(pair.a.qps[0].local_info().tag);
  for (const char* request : {"queue_pairs", "peers", "counters", "config", "events", "process"})
    CHECK(client.must({{"request", request}}).dump().find(tag) == std::string::npos);
}

TEST_CASE("control: lists of many queue pairs in several lanes, a few at a time") {
  const OwnFolder folder;
  Config config = lanes_config(2);
  config.control = folder.path;
  Side side(config, 4096);
  std::vector<QueuePair> qps;
  for (int i = 0; i < 25; ++i) qps.push_back(in_lane(side, i % 2, side.cq));
  ControlClient client(control::sockets_in(folder.path).at(0).path);
  std::vector<std::uint32_t> seen;
  Json request{{"request", "queue_pairs"}, {"count", 7}};
  while (true) {
    const Json answer = client.must(request);
    for (const Json& qp : answer["queue_pairs"]) seen.push_back(qp["qpn"]);
    if (!answer.contains("next")) break;
    CHECK(answer["queue_pairs"].size() == 7);
    request["first"] = answer["next"];
  }
  std::vector<std::uint32_t> there;
  for (const QueuePair& qp : qps) there.push_back(value(qp.qpn()));
  std::sort(seen.begin(), seen.end());
  std::sort(there.begin(), there.end());
  CHECK(seen == there);
}

TEST_CASE("control: a plane goes out of use, and comes back") {
  ControlledPair controlled;
  Pair& pair = controlled.pair;
  ControlClient client = controlled.client();
  const Json events = client.must({{"request", "events"}, {"follow", true}});
  CHECK(events["events"].empty());
  Json planes = client.must({{"request", "plane"}, {"plane", 1}, {"enabled", false}})["planes"];
  CHECK(planes[1]["enabled"] == false);
  CHECK(planes[0]["times_down"] == 0);
  CHECK(planes[1]["times_down"] == 1);
  CHECK(pair.a.device.plane_state(1) == PlaneState{false, false});
  const auto sent = pair.a.device.stats().planes[1].port.tx_packets;
  pair.copy_all();
  CHECK(pair.a.device.stats().planes[1].port.tx_packets == sent);
  Json event = client.next();
  CHECK(event["event"] == "plane_down");
  CHECK(event["plane"] == 1);
  planes = client.must({{"request", "plane"}, {"plane", 1}, {"enabled", true}})["planes"];
  CHECK(planes[1]["enabled"] == true);
  CHECK(planes[1]["times_down"] == 1);
  const Json known = client.must({{"request", "events"}});
  REQUIRE(!known["events"].empty());
  CHECK(known["events"][0] == event);
  CHECK(client.must({{"request", "events"}, {"since", known["newest"]}})["events"].empty());
  // The application has its events all the same.
  DeviceEvent own;
  CHECK(pair.a.device.poll_event(own));
}

TEST_CASE("control: faults only where there were some, the log's level everywhere") {
  {
    ControlledPair controlled;
    ControlClient client = controlled.client();
    CHECK(client.refused({{"request", "faults"}, {"schedule", "loss=0.1"}}) == "access_denied");
    CHECK(client.must({{"request", "log"}})["level"] == "off");
    CHECK(client.must({{"request", "log"}, {"level", "info"}})["level"] == "info");
    CHECK(client.refused({{"request", "log"}, {"level", "loud"}}) == "invalid_argument");
    CHECK(client.must({{"request", "log"}, {"level", "off"}})["level"] == "off");
  }
  Config config = test_config();
  config.faults = "loss=0.001";
  ControlledPair controlled(config);
  ControlClient client = controlled.client();
  CHECK(client.refused({{"request", "faults"}, {"schedule", "lots=1"}}) == "invalid_argument");
  (void)client.must({{"request", "faults"}, {"schedule", "loss=1"}});
  (void)client.must({{"request", "faults"}, {"schedule", ""}});
}

TEST_CASE("control: requests that make no sense have errors, and change nothing") {
  ControlledPair controlled;
  ControlClient client = controlled.client();
  for (const char* line :
       {"nonsense", "[1,2]", "{}", "7", "null", "\"text\"", R"({"request":7})",
        R"({"request":"planes")", "{\"request\":\"\xff\xfe\"}", "[[[[[[[[[[[[[[[["}) {
    CAPTURE(line);
    client.send(line);
    const Json answer = client.next();
    CHECK(answer["ok"] == false);
    CHECK(answer["error"]["code"] == "invalid_argument");
  }
  CHECK(client.refused({{"request", "explode"}}) == "unknown_request");
  // Neither is copied or written level by level, which would take stack.
  for (const std::string field : {"id", "first"}) {
    client.send("{\"request\":\"peers\",\"" + field + "\":" + std::string(31'000, '[') +
                std::string(31'000, ']') + "}");
    CHECK(client.next()["error"]["code"] == "invalid_argument");
  }
  CHECK(client.refused({{"request", "plane"}}) == "invalid_argument");
  CHECK(client.refused({{"request", "plane"}, {"plane", -1}, {"enabled", true}}) ==
        "invalid_argument");
  CHECK(client.refused({{"request", "plane"}, {"plane", 2}, {"enabled", true}}) ==
        "invalid_argument");
  CHECK(client.refused({{"request", "plane"}, {"plane", 1}, {"enabled", "no"}}) ==
        "invalid_argument");
  CHECK(client.refused({{"request", "paths"}, {"lane", 5}, {"peer", 0}}) == "not_found");
  CHECK(client.refused({{"request", "paths"}, {"lane", 0}}) == "invalid_argument");
  CHECK(client.must({{"request", "paths"}, {"lane", 0}, {"peer", 999}})["paths"].empty());
  CHECK(client.refused({{"request", "events"}, {"since", "yesterday"}}) == "invalid_argument");
  CHECK(controlled.pair.a.device.plane_state(1) == PlaneState{true, true});
  // Blank lines are none; a line may be long, but not endless.
  client.send("");
  client.send("   \r");
  CHECK(client.must({{"request", "process"}})["ok"] == true);
  client.send(std::string(200 << 10, ' '));
  CHECK(client.ends());
  ControlClient another = controlled.client();
  CHECK(another.must({{"request", "process"}})["ok"] == true);
}

TEST_CASE("control: clients that are silent, slow or many delay nobody") {
  ControlledPair controlled;
  const std::string socket = controlled.socket();
  // More than may be there at a time, all silent: the one that was quiet for longest goes.
  std::vector<std::unique_ptr<ControlClient>> many;
  for (int i = 0; i < 40; ++i) many.push_back(std::make_unique<ControlClient>(socket));
  CHECK(many.back()->must({{"request", "process"}})["ok"] == true);
  CHECK(many.front()->ends());
  // One that asks on and on and never reads.
  control::Client deaf(socket);
  const std::string request = R"({"request":"counters"})";
  try {
    for (int i = 0; i < 100'000; ++i) deaf.send(request, std::chrono::milliseconds(20));
    FAIL("the device takes requests without end");
  } catch (const Error& error) {
    CHECK(error.code() == make_error_code(Errc::timed_out));
  }
  CHECK(many.back()->must({{"request", "process"}})["ok"] == true);
  // One that sends what needs no answer: no more is kept of it than what the kernel does.
  control::Client blank(socket);
  const std::string lines(64 << 10, '\n');
  for (int i = 0; i < 16; ++i) blank.send(lines, kPatience);
  CHECK(many.back()->must({{"request", "process"}})["ok"] == true);
  controlled.pair.copy_all();
}

TEST_CASE("control: requests that are sent at once are all answered, also before the end") {
  ControlledPair controlled;
  for (const bool end_of_last : {false, true}) {
    control::Client client(controlled.socket());
    (void)client.receive(kPatience);
    std::string requests = "{\"request\":\"process\",\"id\":1}\n{\"request\":\"peers\",\"id\":2}";
    if (end_of_last) requests += "\n";
    REQUIRE(::send(client.fd(), requests.data(), requests.size(), 0) ==
            static_cast<::ssize_t>(requests.size()));
    REQUIRE(::shutdown(client.fd(), SHUT_WR) == 0);
    for (const int id : {1, 2}) {
      const auto line = client.receive(kPatience);
      REQUIRE(line.has_value());
      CHECK(Json::parse(*line)["id"] == id);
    }
    CHECK_THROWS_AS((void)client.receive(kPatience), Error);
  }
}

TEST_CASE("control: nobody waits at a socket at which as many wait as are possible") {
  const OwnFolder folder;
  const std::string path = folder.path + "/1-1-0000000000000001.sock";
  const UniqueFd listener = control::listen_unix(path);
  std::vector<control::Client> waiting;
  try {
    for (int i = 0; i < 10'000; ++i) waiting.emplace_back(path);
    FAIL("there is no end of them");
  } catch (const Error& error) {
    CHECK(error.code() == std::errc::resource_unavailable_try_again);
  }
  CHECK(!control::remove_if_stale(path));
}

namespace control_test {

/// Bytes that a local socket buffers if nobody says otherwise.
std::uint64_t send_buffer() {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  int size = 0;
  socklen_t length = sizeof size;
  REQUIRE(getsockopt(socket.fd(), SOL_SOCKET, SO_SNDBUF, &size, &length) == 0);
  return static_cast<std::uint64_t>(size);
}

TEST_CASE("control: news for a client that does not read are dropped, and counted") {
  ControlledPair controlled;
  const std::string socket = controlled.socket();
  ControlClient slow(socket);
  (void)slow.must({{"request", "events"}, {"follow", true}});
  control::Client other(socket);
  (void)other.receive(kPatience);
  // As text: most of the time would be spent on JSON.
  const auto has = [](const std::optional<std::string>& line, const std::string& text) {
    return line && line->find(text) != std::string::npos;
  };
  const auto toggle = [&](bool enabled) {
    other.send(enabled ? R"({"request":"plane","plane":1,"enabled":true})"
                       : R"({"request":"plane","plane":1,"enabled":false})",
               kPatience);
    REQUIRE(has(other.receive(kPatience), R"("ok":true)"));
  };
  // More than kernel and device keep for a client: 4,342 where sockets buffer 212,992 bytes.
  const std::uint64_t many = 2 * (600 + send_buffer() / 100);
  for (std::uint64_t i = 0; i < many; ++i) toggle(i % 2 == 1);
  const Json known = controlled.client().must({{"request", "events"}});
  CHECK(known["events"].size() == 1024);
  CHECK(known["newest"] == many);
  // It reads at last. Its request is answered behind what was kept for it.
  slow.send(R"({"request":"process","id":"mark"})");
  std::uint64_t told = 0;
  for (Json line = slow.next(); line.value("id", "") != "mark"; line = slow.next()) {
    if (line["event"] == "dropped") continue;
    CHECK(line["number"] == ++told);
  }
  CHECK(told < many);
  toggle(false);
  Json line = slow.next();
  CHECK(line["event"] == "dropped");
  CHECK(line["count"] == many - told);
  line = slow.next();
  CHECK(line["event"] == "plane_down");
  CHECK(line["number"] == many + 1);
}

TEST_CASE("control: threads that read while data moves, and a device that goes meanwhile") {
  auto controlled = std::make_unique<ControlledPair>();
  const std::string socket = controlled->socket();
  std::atomic<int> asked{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      try {
        control::Client client(socket);
        for (int n = 0;; ++n) {
          client.send(n % 2 == 0 ? R"({"request":"queue_pairs"})" : R"({"request":"peers"})",
                      kPatience);
          if (!client.receive(kPatience)) return;
          ++asked;
        }
      } catch (const Error&) {  // the device has gone
      }
    });
  CHECK(eventually([&] { return asked >= 300; }, [&] { controlled->pair.copy_all(); }));
  controlled.reset();
  for (std::thread& reader : readers) reader.join();
}

TEST_CASE("control: a device closes also where no descriptor may be polled any more") {
  const OwnFolder folder;
  Config config = test_config();
  config.control = folder.path;
  config.stall_warning = std::chrono::milliseconds(40);  // its thread wakes every 10 ms
  std::optional<Device> device(std::in_place, config);
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const ::rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  device.reset();  // does not wait for ever
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(control::sockets_in(folder.path).empty());
}

TEST_CASE("control: a queue pair without progress is logged once, and again when it goes on") {
  LogLines lines;
  const auto await_line = [&](const std::string& text, std::size_t times) {
    return eventually([&] { return lines.count(text) >= times; });
  };
  Config config = test_config();
  config.stall_warning = std::chrono::milliseconds(100);
  config.retry_exponential = 25;  // for ever
  lines.capture(config, LogLevel::warn);
  ControlledPair controlled(config);
  Pair& pair = controlled.pair;
  pair.copy_all();
  const std::string name = "queue pair " + std::to_string(value(pair.a.qps[0].qpn()));
  for (int round = 1; round <= 2; ++round) {
    // On a busy machine there may be some before.
    const std::size_t told = lines.count(name + " has made no progress");
    const std::size_t of_paths = lines.count("it waits for path");
    for (const unsigned plane : {0u, 1u}) pair.a.device.set_plane_enabled(plane, false);
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 4096) == Errc::ok);
    CHECK(await_line(name + " has made no progress", told + 1));
    CHECK(lines.count("it waits for path") == of_paths + 1);
    ControlClient client = controlled.client();
    CHECK(client.must({{"request", "queue_pairs"}})["queue_pairs"][0]["waits_for"] == "path");
    for (const unsigned plane : {0u, 1u}) pair.a.device.set_plane_enabled(plane, true);
    CHECK(pair.a.await_one().status == WcStatus::success);
    CHECK(await_line(name + " makes progress again", lines.count(name + " has made no")));
  }
}

TEST_CASE("control: a queue pair that waits for a receive is logged, with what was refused") {
  LogLines lines;
  Config config = test_config();
  config.stall_warning = std::chrono::milliseconds(100);
  lines.capture(config, LogLevel::warn);
  ControlledPair controlled(config);
  Pair& pair = controlled.pair;
  SendRequest send;
  send.opcode = SendOpcode::send;
  REQUIRE(pair.a.qps[0].post_send(send) == Errc::ok);
  CHECK(eventually([&] { return lines.count(" refused meanwhile, peer ") > 0; }));
  CHECK(pair.a.device.stats().engine.refused > 1);
  REQUIRE(pair.b.qps[0].post_receive(1) == Errc::ok);
  CHECK(pair.a.await_one().status == WcStatus::success);
  CHECK(eventually([&] { return lines.count(" makes progress again") > 0; }));
}

TEST_CASE("control: an error says in words what is wrong, once") {
  ControlledPair controlled;
  ControlClient client = controlled.client();
  const Json part{{"plane", 0}, {"t1", 1}}, ev{{"plane", 0}, {"ev", 77}};
  for (const Json& request :
       {Json{{"request", "faults"}, {"schedule", "loss=0.1"}},
        Json{{"request", "paths"}, {"lane", 9}, {"peer", 0}},
        Json{{"request", "paths"}, {"lane", 0}, {"peer", "x"}},
        Json{{"request", "plane"}, {"plane", 9}, {"enabled", true}},
        Json{{"request", "deny"}, {"paths", {part}}}, Json{{"request", "allow"}, {"paths", {ev}}},
        Json{{"request", "log"}, {"level", "loud"}},
        Json{{"request", "check_rules"}, {"proposed", true}}}) {
    const Json answer = client.ask(request);
    INFO(answer.dump());
    REQUIRE(answer["ok"] == false);
    const auto text = answer["error"]["text"].get<std::string>();
    CHECK(!contains(text, "json"));
    for (unsigned code = 1; code <= static_cast<unsigned>(Errc::forked); ++code)
      CHECK(!contains(text, std::string(": ") + to_string(static_cast<Errc>(code))));
  }

  control::RemoteDevice device(control::sockets_in(controlled.folder.path).at(0));
  REQUIRE(device.greet(monotonic_now() + kPatience));
  const auto told = [&](auto&& what) -> std::string {
    try {
      what();
    } catch (const std::exception& error) {
      return control::problem_with(device, error);
    }
    return {};
  };
  CHECK(told([&] {
          (void)device.request({{"request", "faults"}, {"schedule", "loss=0.1"}}, kPatience);
        }) == device.title() +
                  ": faults can be changed only in devices that were opened with option faults");
  CHECK(told([&] { (void)Json(1).at("x"); }) ==
        device.title() +
            ": its answer is not as docs/control.md has it; it may be another version");
  CHECK(told([] { throw_errno("a file", ENOENT); }) ==
        device.title() + ": a file: No such file or directory");
  CHECK(detail::words_of(Error(std::make_error_code(std::errc::no_such_file_or_directory),
                               "a: No such file or directory")) == "a: No such file or directory");
}

}  // namespace control_test
