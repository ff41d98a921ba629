// SPDX-License-Identifier: Apache-2.0
// Paths that administrators deny: in one device, and in all of a host through its store.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host/control_rig.hpp"
#include "mrc/control/dumps.hpp"
#include "mrc/control/host_store.hpp"
#include "mrc/control/line_server.hpp"

using namespace mrc;
using namespace mrc::test;
using detail::HostStore;
using detail::HostStoreWriter;
using detail::SteeringRules;
using Json = nlohmann::json;

namespace steering_test {

DeniedPaths denied_ev(unsigned plane, std::uint32_t ev) {
  DeniedPaths denied;
  denied.plane = static_cast<Plane>(plane);
  denied.ev = Ev{ev};
  return denied;
}

/// The paths to the only peer of the device that the client asks.
Json paths_of(ControlClient& client) {
  const Json peers = client.must({{"request", "peers"}})["peers"];
  REQUIRE(peers.size() == 1);
  return client.must({{"request", "paths"}, {"lane", 0}, {"peer", peers[0]["number"]}})["paths"];
}

/// Paths by whether they have carried packets between two lists of them.
std::size_t used(const Json& before, const Json& after) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < before.size(); ++i) n += before[i]["packets"] != after[i]["packets"];
  return n;
}

std::size_t count_denied(const Json& paths) {
  return static_cast<std::size_t>(std::count_if(
      paths.begin(), paths.end(), [](const Json& path) { return path["state"] == "denied"; }));
}

/// The file of the host's store with that extension.
std::string file_of(const OwnFolder& folder, const char* extension) {
  for (const auto& file : std::filesystem::directory_iterator(folder.path + "/host"))
    if (file.path().extension() == extension) return file.path();
  FAIL("no such file");
  return {};
}

/// Traffic until `done`, or for as long as a test waits.
void copy_until(Pair& pair, auto&& done) {
  CHECK(eventually(done, [&] { pair.copy_all(); }));
}

TEST_CASE("steering: a denied EV carries nothing, and data again once it is allowed") {
  ControlledPair controlled;
  Pair& pair = controlled.pair;
  pair.copy_all();
  ControlClient client = controlled.client();
  const Json first = paths_of(client);
  REQUIRE(first.size() == 8);
  const Json one{{"plane", first[0]["plane"]}, {"ev", first[0]["ev"]}};

  Json answer = client.must({{"request", "deny"}, {"paths", {one}}});
  CHECK(answer["paths"] == 1);
  CHECK(answer["peers_cut_off"] == 0);
  CHECK(answer["denied"] == Json::array({one}));
  const Json before = paths_of(client);
  CHECK(before[0]["state"] == "denied");
  // All others carry data meanwhile, so it had its turn many times.
  copy_until(pair, [&] { return used(before, paths_of(client)) == 7; });
  CHECK(paths_of(client)[0]["packets"] == before[0]["packets"]);

  (void)client.must({{"request", "deny"}, {"paths", {one}}});  // once more changes nothing
  CHECK(client.must({{"request", "denied"}})["denied"].size() == 1);
  answer = client.must({{"request", "allow"}, {"paths", {one}}});
  CHECK(answer["paths"] == 0);
  copy_until(pair, [&] { return paths_of(client)[0]["packets"] > before[0]["packets"]; });
  CHECK(client.refused({{"request", "allow"}, {"paths", {one}}}) == "not_found");
}

TEST_CASE("steering: paths that are denied in parts of a fabric need a fabric") {
  ControlledPair controlled;
  ControlClient client = controlled.client();
  const auto refused = [&](Json path) {
    return client.refused({{"request", "deny"}, {"paths", {std::move(path)}}});
  };
  CHECK(refused({{"plane", 0}, {"t1", 1}}) == "unsupported");
  CHECK(refused({{"plane", 0}, {"host", "h1"}}) == "unsupported");
  CHECK(refused({{"plane", 7}, {"ev", 1}}) == "invalid_argument");
  CHECK(refused({{"ev", 1}}) == "invalid_argument");
  CHECK(refused({{"plane", 0}, {"ev", -1}}) == "invalid_argument");
  CHECK(refused({{"plane", 0}, {"ev", 1}, {"t0", 1}}) == "invalid_argument");
  CHECK(refused({{"plane", 0}, {"host", ""}}) == "invalid_argument");
  CHECK(refused("p0t1-1") == "invalid_argument");
  CHECK(client.refused({{"request", "deny"}}) == "invalid_argument");
  CHECK(client.refused({{"request", "deny"}, {"paths", Json::array()}}) == "invalid_argument");
  CHECK(client.refused({{"request", "deny"}, {"paths", 1}}) == "invalid_argument");
  CHECK(client.must({{"request", "denied"}})["denied"].empty());
  // For the host it is only told.
  const Json rules{{"denied", {{{"plane", 0}, {"t1", 1}}, {{"plane", 0}, {"ev", 1}}}}};
  CHECK(client.must({{"request", "check_rules"}, {"rules", rules}})["unknown"] == 1);
}

TEST_CASE("steering: without a path packets wait, and go on when one is allowed") {
  ControlledPair controlled;
  Pair& pair = controlled.pair;
  pair.copy_all();
  ControlClient client = controlled.client();
  Json all = Json::array();
  for (const Json& path : paths_of(client))
    all.push_back({{"plane", path["plane"]}, {"ev", path["ev"]}});
  const Json answer = client.must({{"request", "deny"}, {"paths", all}});
  CHECK(answer["paths"] == 8);
  CHECK(answer["peers_cut_off"] == 1);
  const Json before = paths_of(client);
  std::thread copies([&] { pair.copy_all(); });
  CHECK(eventually([&] {
    return client.must({{"request", "queue_pairs"}})["queue_pairs"][0]["waits_for"] == "path";
  }));
  CHECK(used(before, paths_of(client)) == 0);
  (void)client.must({{"request", "allow"}, {"all", true}});
  copies.join();  // every byte was checked
  CHECK(count_denied(paths_of(client)) == 0);
}

TEST_CASE("steering: the host's rules reach devices that nobody tells, and later devices") {
  ControlledPair controlled;
  Pair& pair = controlled.pair;
  pair.copy_all();
  ControlClient client = controlled.client();
  const Json first = paths_of(client);
  const DeniedPaths one = denied_ev(first[0]["plane"].get<unsigned>(), first[0]["ev"]);
  {
    HostStoreWriter store(controlled.folder.path, kPatience);
    CHECK(store.rules().steering == SteeringRules{});
    store.write({{0, {one}}});
  }
  // Nobody has told the devices: they look now and then.
  copy_until(pair, [&] { return paths_of(client)[0]["state"] == "denied"; });
  const Json before = paths_of(client);
  copy_until(pair, [&] { return used(before, paths_of(client)) == 7; });
  const Json after = paths_of(client);
  CHECK(after[0]["packets"] == before[0]["packets"]);
  CHECK(after[0]["state"] == "denied");

  SUBCASE("a device that opens later has them, for peers that it meets later still") {
    DeniedPaths plane;
    plane.plane = 1;
    HostStoreWriter(controlled.folder.path, kPatience).write({{0, {plane}}});
    Config config = test_config();
    config.control = controlled.folder.path;
    Pair later(config);
    later.copy_all();
    for (const PathReport& path : later.a.device.paths(later.a.qps[0])) {
      CHECK((path.state == "denied") == (path.plane == 1));
      if (path.plane == 1) CHECK(path.packets == 0);
    }
  }
  SUBCASE("rules that mean nothing to a device do not keep it from the others") {
    DeniedPaths part;
    part.plane = 0, part.t1 = 1;
    HostStoreWriter(controlled.folder.path, kPatience).write({{0, {part, one}}});
    (void)client.must({{"request", "host_changed"}});
    CHECK(paths_of(client)[0]["state"] == "denied");
    Config config = test_config();
    config.control = controlled.folder.path;
    Pair later(config);
    later.copy_all();
  }
  SUBCASE("rules of the host and of the device count together") {
    (void)client.must({{"request", "deny"}, {"paths", {detail::to_json(one)}}});
    HostStoreWriter(controlled.folder.path, kPatience).write({});
    (void)client.must({{"request", "host_changed"}});
    CHECK(paths_of(client)[0]["state"] == "denied");
    (void)client.must({{"request", "allow"}, {"all", true}});
    CHECK(paths_of(client)[0]["state"] != "denied");
  }
  SUBCASE("a plane that is down for the host is down in the device") {
    HostStoreWriter(controlled.folder.path, kPatience).write({{plane_bit(1), {}}});
    const Json planes = client.must({{"request", "host_changed"}});
    CHECK(pair.a.device.plane_state(1).enabled == false);
    pair.a.device.set_plane_enabled(1, true);
    CHECK(pair.a.device.plane_state(1).enabled == false);  // it is, for the host
    HostStoreWriter(controlled.folder.path, kPatience).write({});
    (void)client.must({{"request", "host_changed"}});
    CHECK(pair.a.device.plane_state(1).enabled == true);
    pair.copy_all();
  }
  SUBCASE("a store that can't be read leaves the rules as they are") {
    const std::string store = file_of(controlled.folder, ".json");
    for (const char* text : {"", "{", "[]", R"({"version": 2})", R"({"version": 1, "denied": 1})",
                             R"({"version": 1, "planes_down": [99]})"}) {
      INFO(text);
      std::ofstream(store) << text;
      CHECK(client.refused({{"request", "host_changed"}}) == "failed");
      CHECK(paths_of(client)[0]["state"] == "denied");
    }
    CHECK_THROWS_AS(HostStoreWriter(controlled.folder.path, kPatience), Error);
    CHECK(HostStoreWriter(controlled.folder.path, kPatience, true).rules().steering ==
          SteeringRules{});
    std::filesystem::remove(store);
    (void)client.must({{"request", "host_changed"}});
    CHECK(paths_of(client)[0]["state"] != "denied");
  }
}

TEST_CASE("steering: what carries nothing since its plane is out of use is counted, too") {
  ControlledPair controlled;
  controlled.pair.copy_all();
  ControlClient client = controlled.client();
  (void)client.must({{"request", "plane"}, {"plane", 1}, {"enabled", false}});
  Json answer = client.must({{"request", "denied"}});
  CHECK(answer["planes_down"] == Json::array({1}));
  CHECK(answer["paths"] == 4);
  CHECK(answer["peers_cut_off"] == 0);
  HostStoreWriter(controlled.folder.path, kPatience).write({{plane_bit(0), {denied_ev(1, 7)}}});
  answer = client.must({{"request", "host_changed"}});
  CHECK(answer["paths"] == 8);
  CHECK(answer["peers_cut_off"] == 1);
}

TEST_CASE("steering: rules that mean nothing to any device of the host are known before") {
  ControlledPair controlled;
  HostStoreWriter store(controlled.folder.path, kPatience);
  const detail::HostSearch search{{controlled.folder.path}, kPatience, kPatience};
  const auto without_effect = [&](SteeringRules rules) {
    const auto change = detail::ask_devices(store, {std::move(rules)}, search);
    CHECK(change.devices.size() == 2);
    return change.without_effect;
  };
  DeniedPaths t1;
  t1.plane = 1, t1.t1 = 1;
  const SteeringRules useless{plane_bit(7), {t1, denied_ev(2, 1)}};
  CHECK(without_effect({plane_bit(1) | plane_bit(7), {t1, denied_ev(1, 1), denied_ev(2, 1)}}) ==
        useless);
  CHECK(without_effect({plane_bit(0) | plane_bit(1), {denied_ev(1, 1)}}) == SteeringRules{});
  store.write({useless});  // as an earlier device left it
  CHECK(without_effect({plane_bit(7), {t1, denied_ev(1, 1)}}) == SteeringRules{});
}

/// A device whose answers are none.
struct OddDevice : control::LineHandler {
  std::string greeting() override {
    const Json hello{{"event", "hello"},
                     {"protocol", 1},
                     {"pid", ::getpid()},
                     {"program", "odd"},
                     {"network", detail::host_key()},
                     {"host", "h"}};
    return hello.dump();
  }
  std::string refusal(std::string_view) override { return "{}"; }
  std::string answer(std::string_view, bool&) override { return R"({"id":"x","ok":true})"; }
  [[nodiscard]] std::vector<int> watched() const override { return {}; }
  std::vector<std::string> news() override { return {}; }
  Time tick(Time) override { return kNever; }
};

TEST_CASE("steering: a device whose answer is none keeps the rules as they are, and is named") {
  const OwnFolder folder;
  OddDevice odd;
  const control::LineServer server(
      folder.path + "/" + control::to_string(control::make_socket_name()), odd);
  HostStoreWriter store(folder.path, kPatience);
  try {
    (void)detail::ask_devices(store, {{plane_bit(1), {}}}, {{folder.path}, kPatience, kPatience});
    FAIL("it has confirmed");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::bad_message);
    CHECK(std::string(error.what()).find("odd (pid ") != std::string::npos);
  }
}

TEST_CASE("steering: the store belongs to who may change it, one at a time") {
  const OwnFolder folder;
  const detail::Log log(LogLevel::off);
  HostStore device(folder.path, log);
  const std::uint64_t before = device.number();
  {
    HostStoreWriter store(folder.path, kPatience);
    CHECK_THROWS_AS(HostStoreWriter(folder.path, Duration(0)), Error);
    store.write({{plane_bit(2), {denied_ev(0, 5), denied_ev(0, 6)}}});
  }
  CHECK(device.number() == before);
  CHECK(device.look());
  CHECK(device.number() != before);
  const auto rules = device.rules().rules;
  CHECK(rules->steering.planes_down == plane_bit(2));
  CHECK(rules->steering.denied == std::vector{denied_ev(0, 5), denied_ev(0, 6)});
  CHECK(!device.look());  // read once
  CHECK(HostStoreWriter(folder.path, kPatience).rules().serial == rules->serial);

  // What others could have written does not count.
  const std::string file = file_of(folder, ".json");
  struct stat is {};
  REQUIRE(::stat(file.c_str(), &is) == 0);
  CHECK((is.st_mode & 0777) == 0644);
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  HostStore later(folder.path, log);
  CHECK(later.rules().rules->steering.denied.empty());
  CHECK_THROWS_AS(HostStoreWriter("/nowhere", kPatience), Error);
}

/// Runs `body` in a process of its own, which ends after it.
template <typename Body>
::pid_t in_child(const Body& body) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  REQUIRE(child > 0);
  return child;
}

TEST_CASE("steering: a controller that is killed while it changes the rules leaves none unread") {
  const OwnFolder folder;
  const detail::Log log(LogLevel::off);
  HostStore device(folder.path, log);
  for (int n = 0; n < 30; ++n) {
    const ::pid_t child = in_child([&] {
      for (HostStoreWriter store(folder.path, kPatience);;) store.write({});
    });
    const std::uint64_t before = device.number();
    CHECK(eventually(
        [&] {
          (void)device.look();
          return device.number() - before >= 10;
        },
        std::this_thread::yield));
    std::this_thread::sleep_for(std::chrono::microseconds(7 * n));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::uint64_t stored = detail::read_host_state(folder.path).serial;
    (void)device.look();
    CHECK(stored != 0);
    CHECK(device.rules().rules->serial == stored);
  }
  HostStoreWriter(folder.path, kPatience).write({{plane_bit(3), {}}});
  CHECK(device.look());
  CHECK(device.rules().rules->steering.planes_down == plane_bit(3));
}

TEST_CASE("steering: rules that can't be read stay as they were, and are read later") {
  const OwnFolder folder;
  LogLines lines;
  Config config;
  lines.capture(config, LogLevel::warn);
  const detail::Log log(LogLevel::warn, config.log_sink);
  HostStore device(folder.path, log);
  HostStoreWriter(folder.path, kPatience).write({{plane_bit(4), {}}});
  CHECK(device.look());
  HostStoreWriter(folder.path, kPatience).write({{plane_bit(5), {}}});
  const std::string file = file_of(folder, ".json");
  std::filesystem::rename(file, file + ".away");
  std::filesystem::create_directory(file);
  for (int i = 0; i < 3; ++i) CHECK(!device.look());
  CHECK(device.rules().rules->steering.planes_down == plane_bit(4));
  CHECK(lines.count("can't be read") + lines.count("belong to another user") == 1);
  std::filesystem::remove(file);
  std::filesystem::rename(file + ".away", file);
  CHECK(device.look());
  CHECK(device.rules().rules->steering.planes_down == plane_bit(5));
}

TEST_CASE("steering: whatever becomes of the store's files, devices go on") {
  ControlledPair controlled;
  Pair& pair = controlled.pair;
  HostStoreWriter(controlled.folder.path, kPatience).write({{plane_bit(1), {}}});
  ControlClient client = controlled.client();
  (void)client.must({{"request", "host_changed"}});
  pair.copy_all();
  for (const auto& file : std::filesystem::directory_iterator(controlled.folder.path + "/host"))
    std::filesystem::resize_file(file.path(), 0);
  pair.copy_all();
  CHECK(client.refused({{"request", "host_changed"}}) == "failed");
  CHECK(pair.a.device.plane_state(1).enabled == false);
  std::filesystem::remove_all(controlled.folder.path + "/host");
  (void)client.must({{"request", "host_changed"}});
  pair.copy_all();
  CHECK(pair.a.device.plane_state(1).enabled == true);
}

TEST_CASE("steering: a device says once that the host's rules have changed") {
  const OwnFolder folder;
  LogLines lines;
  Config config = test_config();
  lines.capture(config, LogLevel::warn);
  config.control = folder.path;
  const Device device(config);
  const std::string socket = control::sockets_in(folder.path).at(0).path;
  ControlClient client(socket);
  HostStoreWriter(folder.path, kPatience).write({{plane_bit(1), {}}});
  const ControlClient later(socket);  // the device looks before it greets
  for (int i = 0; i < 2; ++i) (void)client.must({{"request", "host_changed"}});
  CHECK(device.plane_state(1).enabled == false);
  CHECK(lines.count("have changed") == 1);
}

TEST_CASE("steering: a folder that comes later is followed") {
  const OwnFolder folder;
  const std::string path = folder.path + "/later";
  const detail::Log log(LogLevel::off);
  HostStore device(path, log);
  CHECK(device.rules().rules->steering.denied.empty());
  std::filesystem::create_directory(path);
  CHECK(!device.look());
  HostStoreWriter(path, kPatience).write({{0, {denied_ev(0, 5)}}});
  CHECK(device.look());
  CHECK(device.rules().rules->steering.denied.size() == 1);
  HostStoreWriter(path, kPatience).write({});
  device.reread();
  CHECK(device.rules().rules->steering.denied.empty());
  CHECK(!device.look());
}

TEST_CASE("steering: rules as JSON, there and back") {
  SteeringRules rules{plane_bit(0) | plane_bit(31), {denied_ev(3, 0xFFFFFFFF), {}, {}, {}, {}}};
  rules.denied[1].t0 = 7;
  rules.denied[2].t1 = 0;
  rules.denied[3].t0 = 1, rules.denied[3].t1 = 2;
  rules.denied[4].host = "h1";
  CHECK(detail::rules_from_json(detail::to_json(rules)) == rules);
  CHECK(detail::rules_from_json(Json::object()) == SteeringRules{});
  Json many{{"denied", Json::array()}};
  for (unsigned i = 0; i < 257; ++i) many["denied"].push_back({{"plane", 0}, {"ev", i}});
  CHECK_THROWS_AS((void)detail::rules_from_json(many), Error);
}

}  // namespace steering_test
