// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <doctest/doctest.h>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace interface_test {

/// What the profiler was told.
struct Events {
  std::mutex mutex;
  std::set<void*> running;
  int started = 0;
  int wrong = 0;
};
Events events;
int parent_of_events = 0;

Result record_event(void** handle, int type, void* parent, std::int64_t plugin, void*) {
  const std::lock_guard lock(events.mutex);
  if (type == static_cast<int>(nccl_abi::ProfilerEvent::start)) {
    *handle = new int(events.started++);
    events.running.insert(*handle);
    events.wrong += parent != &parent_of_events || plugin != nccl_abi::kProfilerIbV1;
  } else if (type == static_cast<int>(nccl_abi::ProfilerEvent::stop)) {
    const bool known = events.running.erase(*handle) == 1;
    events.wrong += !known;
    if (known) delete static_cast<int*>(*handle);
  }
  return Result::success;
}

/// A message of 10,000 bytes with a profiler's parent at both ends.
void profiled_message(Net& net, Connection& connection) {
  Pool from(net, connection.send, 1, 10'000);
  Pool to(net, connection.receive, 1, 10'000);
  void* parent = &parent_of_events;
  void* receive = irecv(net, connection.receive, to.at(0, 0), 10'000, 0, to.mr(), parent);
  ask(net, receive);
  void* send = isend(net, connection.send, from.at(0, 0), 10'000, 0, from.mr(), parent);
  for (void* request : {send, receive}) finish(net, request);
}

/// The plugin under a wrong configuration: not chosen, and why is in one warning.
void check_refused(int version, const Environment::Variable& variable) {
  const Environment environment{kTwoPlanes, variable};
  DebugLog::instance().print_to(nullptr);
  DebugLog::instance().clear();
  PluginLibrary library(selection(version));
  const Communicator communicator =
      library.open({.comm_id = 1, .logger = DebugLog::logger(), .profiler = nullptr});
  CHECK_FALSE(communicator);
  CHECK(communicator.reason.find("init failed: invalid usage") != std::string::npos);
  const auto warnings = DebugLog::instance().lines(LogLevel::warn, "");
  REQUIRE(warnings.size() == 1);
  CAPTURE(warnings[0].text);
  CHECK(warnings[0].text.find(variable.first) != std::string::npos);
  CHECK(warnings[0].text.find(variable.second) != std::string::npos);
}

TEST_CASE("Lines of the log name no file of the build") {
  const Environment environment{kTwoPlanes};
  DebugLog::instance().print_to(nullptr);
  DebugLog::instance().clear();
  PluginLibrary library(selection(versions().back()));
  Communicator communicator = library.open({.comm_id = 1, .logger = DebugLog::logger()});
  REQUIRE(communicator);
  CHECK(library.close(communicator) == Result::success);
  const auto lines = DebugLog::instance().lines(LogLevel::info, "NET/MRC");
  CHECK_FALSE(lines.empty());
  for (const auto& line : lines) CHECK(line.file.find('/') == std::string::npos);
}

TEST_CASE("The name is constant, and NCCL_NET may ask for it") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    nccl_host::Selection wanted = selection(version);
    wanted.net = "mrc";
    PluginLibrary library(wanted);
    DebugLog::instance().print_to(nullptr);
    for (int round = 0; round < 3; ++round) {
      Communicator communicator = library.open({.comm_id = 1, .logger = DebugLog::logger()});
      REQUIRE_MESSAGE(communicator, communicator.reason);
      CHECK(std::string(communicator.net->name()) == "MRC");
      library.close(communicator);
    }
  }
}

TEST_CASE("Properties are sane and stay the same") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    REQUIRE(job.devices() >= 1);
    for (int device = 0; device < job.devices(); ++device) {
      nccl_host::Properties properties;
      ok(job.net().properties(device, &properties), "properties");
      CHECK_FALSE(properties.name.empty());
      CHECK(properties.pointer_support == nccl_abi::kHostMemory);
      CHECK(properties.speed > 0);
      CHECK(properties.latency >= 0);
      CHECK(properties.max_comms >= 1024);
      CHECK(properties.max_receives == 8);
      CHECK(properties.device_type == 0);
      CHECK(properties.max_p2p_bytes >= std::size_t{1} << 30);
      CHECK(properties.max_multi_request_size >= 1);
      REQUIRE(properties.members.size() >= 1);
      CHECK(properties.members[0] == device);
      for (int i = 0; i < 100; ++i) {
        nccl_host::Properties again;
        ok(job.net().properties(device, &again), "properties");
        REQUIRE(again == properties);
      }
    }
    int devices = 0;
    ok(job.net().devices(&devices), "devices");
    CHECK(devices == job.devices());
  }
}

TEST_CASE("A virtual device is made of devices that exist") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_NCCL_MERGE", "none"}};
  for (const int version : versions()) {
    if (version < 9) continue;
    CAPTURE(version);
    Job job(version);
    int device = -1;
    CHECK(job.net().make_virtual_device({}, &device) != Result::success);
    CHECK(job.net().make_virtual_device({job.devices() + 50}, &device) != Result::success);
    CHECK(job.net().make_virtual_device({-1, 0}, &device) != Result::success);
    REQUIRE(job.devices() == 2);
    ok(job.net().make_virtual_device({0, 1}, &device), "make_virtual_device");
    CHECK(device >= 2);
    nccl_host::Properties properties;
    nccl_host::Properties member;
    ok(job.net().properties(device, &properties), "properties");
    ok(job.net().properties(0, &member), "properties");
    CHECK(properties.members == std::vector<int>{0, 1});
    CHECK(properties.speed == 2 * member.speed);
    Setup setup{.job = &job};
    setup.device = device;
    setup.listen();
    setup.complete();
    exchange(job.net(), setup.send, setup.receive, {.groups = 20});
    setup.close();
  }
}

TEST_CASE("Hints of peers and flows are taken at any time") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    if (version < 11) continue;
    CAPTURE(version);
    Job job(version);
    Connection connection(job);
    nccl_abi::Attributes attributes;
    ok(job.net().set_attributes(job.context(0), &attributes), "set_attributes");
    for (const int peers : {1, 7, 1000}) {
      attributes.send = attributes.receive = {peers, peers, 4, 1};
      attributes.op = 1;
      ok(job.net().set_attributes(job.context(0), &attributes), "set_attributes");
      run(job, {&connection}, {.groups = 10});
    }
  }
}

TEST_CASE("The profiler hears of each event's start and stop") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    if (version < 10) continue;
    CAPTURE(version);
    events.started = events.wrong = 0;
    {
      Job job(version, 2, record_event);
      Connection connection(job);
      for (int i = 0; i < 20; ++i) profiled_message(job.net(), connection);
      // Without a parent there is nothing to tell.
      run(job, {&connection}, {.groups = 10});
    }
    CHECK(events.started >= 20);
    CHECK(events.running.empty());
    CHECK(events.wrong == 0);
  }
}

TEST_CASE("The log has one banner") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    DebugLog::instance().clear();
    Job job(version, 3);
    const auto lines = DebugLog::instance().lines(LogLevel::info, "NET/MRC");
    REQUIRE(lines.size() >= 1);
    const auto banner = [](const DebugLog::Line& line) {
      return line.text.find("OpenMRC") != std::string::npos;
    };
    CHECK(std::count_if(lines.begin(), lines.end(), banner) == 1);
    for (const auto& line : lines) {
      if (banner(line)) CHECK(line.flags == (nccl_abi::kLogInit | nccl_abi::kLogNet));
    }
    CHECK(DebugLog::instance().lines(LogLevel::warn, "").empty());
  }
}

TEST_CASE("Statistics of every connection are in a file at the end") {
  const std::string file = "nccl_statistics_" + std::to_string(getpid()) + ".json";
  const Environment environment{kTwoPlanes, {"NCCL_MRC_STATS", file.c_str()}, {"RANK", "7"}};
  for (const int version : versions()) {
    if (version < 11) continue;  // never told of an end
    CAPTURE(version);
    {
      Job job(version);
      Connection there(job, 0, 1);
      Connection back(job, 1, 0);
      run(job, {&there, &back}, {.groups = 5});
    }
    std::ifstream stream(file);
    const auto statistics = nlohmann::json::parse(stream);
    REQUIRE(statistics.at("devices").size() == 1);
    REQUIRE(statistics.at("connections").size() == 4);
    std::uint64_t sent = 0, retransmits = 0;
    for (const auto& connection : statistics.at("connections")) {
      CHECK(connection.at("messages").get<int>() >= 5);
      CHECK(connection.at("error").get<std::string>().empty());
      CHECK_FALSE(connection.contains("paths"));
      CHECK(connection.at("peer_number") == 0);
      sent += connection.at("queue_pair").at("tx_packets").get<std::uint64_t>();
      retransmits += connection.at("queue_pair").at("retransmits").get<std::uint64_t>();
    }
    // One process and one lane: a single peer, itself.
    REQUIRE(statistics.at("peers").size() == 1);
    const auto& peer = statistics.at("peers").at(0);
    CHECK(peer.at("number") == 0);
    CHECK(peer.at("connections") == 4);
    CHECK(peer.at("device") == "mrc0");
    CHECK(peer.at("process") == statistics.at("process"));
    std::uint64_t over_paths = 0;
    for (const auto& path : peer.at("paths")) over_paths += path.at("packets").get<int>();
    CHECK(over_paths >= sent - retransmits);
    CHECK(over_paths <= sent + retransmits);
    const auto& sums = statistics.at("devices").at(0).at("sums");
    CHECK(sums.at("connections") == 4);
    CHECK(sums.at("connections_failed") == 0);
    CHECK(sums.at("tx_packets") == sent);
    CHECK(sums.at("bytes_sent").get<int>() > 0);
    CHECK(sums.at("bytes_sent") == sums.at("bytes_received"));
    CHECK(statistics.at("rank") == 7);
    CHECK(statistics.at("rank_variable") == "RANK");
    CHECK(statistics.at("duration_s").get<double>() > 0.0);
    const auto started = statistics.at("started").get<std::string>();
    CHECK(started.size() == std::string("2026-11-24T15:04:05.678Z").size());
    CHECK(started.back() == 'Z');
    std::remove(file.c_str());
  }
}

TEST_CASE("A wrong configuration is an error at init that names the variable and its value") {
  if (keeps_old_environment()) return;
  for (const int version : versions()) {
    CAPTURE(version);
    check_refused(version, {"MRC_PATHS", "lots"});
    check_refused(version, {"MRC_NCCL_MERGE", "sometimes"});
    check_refused(version, {"MRC_NCCL_EARLY_RECEIVES", "perhaps"});
    check_refused(version, {"NCCL_MRC_TIMEOUT", "25"});
    check_refused(version, {"NCCL_MRC_STATS", "/nowhere/stats-%p.json"});
    check_refused(version, {"NCCL_MRC_STATS", "/"});
  }
  // A link that somebody else may have made leads nowhere.
  const std::string link = "nccl_link_" + std::to_string(getpid()) + ".json";
  REQUIRE(symlink("nccl_linked.json", link.c_str()) == 0);
  check_refused(versions().front(), {"NCCL_MRC_STATS", link.c_str()});
  CHECK(access("nccl_linked.json", F_OK) != 0);
  unlink(link.c_str());
}

TEST_CASE("A statistics file that can be written is not touched before the end") {
  if (keeps_old_environment()) return;
  const std::string file = "nccl_untouched_" + std::to_string(getpid()) + ".json";
  const Environment environment{kTwoPlanes, {"NCCL_MRC_STATS", file.c_str()}};
  for (const bool exists : {false, true}) {
    CAPTURE(exists);
    if (exists) std::ofstream(file) << "of an earlier run";
    Job job(few_versions().front());
    std::ifstream stream(file);
    CHECK(stream.is_open() == exists);
    std::string first;
    stream >> first;
    CHECK(first == (exists ? "of" : ""));
  }
  std::remove(file.c_str());
}

TEST_CASE("Misuse is an error") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    auto& net = job.net();
    char handle[nccl_abi::kHandleBytes] = {};
    void* comm = nullptr;
    for (const int device : {-1, job.devices(), 1000}) {
      nccl_host::Properties properties;
      CHECK(net.properties(device, &properties) != Result::success);
      CHECK(net.listen(job.context(0), device, handle, &comm) != Result::success);
      CHECK(comm == nullptr);
    }
    Setup setup{.job = &job};
    setup.listen();
    CHECK(net.connect(job.context(0), 1000, setup.handle, &comm) != Result::success);
    setup.close_listener();
    CHECK(net.accept(nullptr, &comm) != Result::success);

    Connection connection(job);
    Pool pool(net, connection.send, 1, 100);
    void* data = pool.at(0, 0);
    void* mr = pool.mr();
    void* parent = nullptr;
    void* request = nullptr;
    std::size_t size = 100;
    int tag = 0;
    CHECK(net.isend(nullptr, data, size, tag, mr, nullptr, &request) != Result::success);
    CHECK(net.irecv(nullptr, 1, &data, &size, &tag, &mr, &parent, &request) != Result::success);
    for (const int n : {-1, 0, 9}) {
      std::vector<void*> all(9, data);
      std::vector<void*> mrs(9, mr);
      std::vector<void*> parents(9);
      std::vector<std::size_t> sizes(9, 1);
      std::vector<int> tags(9);
      CHECK(net.irecv(connection.receive, n, all.data(), sizes.data(), tags.data(), mrs.data(),
                      parents.data(), &request) != Result::success);
    }
    void* none = nullptr;
    CHECK(net.irecv(connection.receive, 1, &data, &size, &tag, &none, &parent, &request) !=
          Result::success);
    CHECK(net.isend(connection.send, data, (std::size_t{1} << 40) + 1, tag, mr, nullptr,
                    &request) != Result::success);
    int done = 0;
    CHECK(net.test(nullptr, &done, nullptr) != Result::success);
    int flush_size = 100;
    CHECK(net.iflush(nullptr, 1, &data, &flush_size, &mr, &request) != Result::success);
    ok(net.iflush(connection.receive, 1, &data, &flush_size, &mr, &request), "iflush");
    CHECK(request == nullptr);
    // Closing nothing is no mistake, or is one.
    (void)net.close_send(nullptr);
    (void)net.close_receive(nullptr);
    (void)net.close_listen(nullptr);
    run(job, {&connection}, {.groups = 5});
  }
}

}  // namespace interface_test
