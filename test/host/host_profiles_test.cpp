// SPDX-License-Identifier: Apache-2.0
// Profiles that hold for all devices of a host: they come from its store, and reach devices that
// send, that open later, and that can't have them.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/profiles_rig.hpp"
#include "host/control_rig.hpp"
#include "mrc/control/dumps.hpp"
#include "mrc/control/host_store.hpp"
#include "mrc/control/profiles.hpp"
#include "mrc/core/unique_fd.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace mrc::test::profiles;
using detail::HostState;
using detail::HostStoreWriter;
using detail::ProfileRegistry;
using detail::ProfileSet;
using Json = nlohmann::json;

namespace host_profiles_test {

ProfileRegistry registry() {
  detail::ProfileSurroundings around;
  around.planes = 2;
  around.check_ev = [](path::EvMode, const detail::ExpandedEv&) {};
  return ProfileRegistry(around);
}

/// EV profile `id` of these EVs, with format profile 1.
ProfileSet explicit_set(ProfileId id, const std::vector<ProfileEv>& evs) {
  ProfileSet set;
  set.formats[1] = {ProfileState::online, path::EvMode::udp, {{{16}}}};
  ProfileSet::Evs profile;
  profile.state = ProfileState::online;
  profile.mode = EvProfileMode::explicit_;
  profile.format = 1;
  profile.ev_count = static_cast<std::uint32_t>(evs.size());
  profile.min_active = 1;
  profile.event_mask = 3;
  for (const ProfileEv& ev : evs) profile.entries.push_back({ev, false, 0});
  set.evs[id] = profile;
  return set;
}

/// Two devices of one host over planes in memory, and its store.
struct ProfiledHost {
  static Config in(const std::string& folder) {
    Config config = patient_config();
    config.control = folder;
    return config;
  }
  OwnFolder folder;
  Net net{in(folder.path)};

  [[nodiscard]] detail::HostSearch search() const { return {{folder.path}, kPatience, kPatience}; }
  /// What the store has, after change(set).
  static HostState changed(HostStoreWriter& store, const std::function<void(ProfileSet&)>& change) {
    HostState wanted = store.rules();
    ProfileSet set = *wanted.profiles;
    change(set);
    wanted.profiles = std::make_shared<const ProfileSet>(set);
    return wanted;
  }
  /// The host's profiles change, and nobody tells the devices, which look now and then.
  void write(const std::function<void(ProfileSet&)>& change) const {
    HostStoreWriter store(folder.path, kPatience);
    store.write(changed(store, change));
  }
  /// What change(set) makes of the host's profiles is told to all devices.
  detail::HostChange change(const std::function<void(ProfileSet&)>& change) {
    HostStoreWriter store(folder.path, kPatience);
    const HostState wanted = changed(store, change);
    detail::HostChange done = detail::change_host(store, wanted, search());
    for (const std::string& why : done.unconfirmed) FAIL_CHECK(why);
    return done;
  }
  std::error_code fails(const std::function<void(ProfileSet&)>& with) {
    return code_of([&] { (void)change(with); });
  }
  [[nodiscard]] ProfileSet stored() const { return *detail::read_host_state(folder.path).profiles; }
  /// The state of the profile's entries, over both devices.
  std::vector<EvState> states(ProfileId id) {
    EvProfileInfo info;
    const ProfileSet set = stored();
    for (const ProfileSet::Entry& entry : set.evs.at(id).entries)
      info.entries.push_back({entry.ev, entry.denied ? EvState::denied : EvState::good, 0, 0});
    detail::merge_states(id, info, search());
    std::vector<EvState> out;
    for (const EvEntry& entry : info.entries) out.push_back(entry.state);
    return out;
  }
};

/// What looks like a device, and dies after some answers.
class Dying {
 public:
  Dying(const std::string& folder, int answers) : store_(folder, log_) {
    const std::string path = folder + "/" + control::to_string(control::make_socket_name());
    listens_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(listens_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    REQUIRE(::listen(listens_.fd(), 8) == 0);
    thread_ = std::thread([this, answers] { serve(answers); });
  }
  ~Dying() { thread_.join(); }
  Dying(const Dying&) = delete;
  Dying& operator=(const Dying&) = delete;

 private:
  void serve(int answers) const {
    const UniqueFd client(::accept(listens_.fd(), nullptr, nullptr));
    if (answers < 0) return;  // before it has said who it is
    const Json hello{{"event", "hello"},   {"protocol", 1},  {"pid", ::getpid()},
                     {"program", "dying"}, {"host", "here"}, {"network", detail::host_key()}};
    send(client, hello);
    for (std::string in; answers >= 0; --answers) {
      char part[4096];
      while (in.find('\n') == std::string::npos) {
        const ssize_t n = ::recv(client.fd(), part, sizeof part, 0);
        if (n <= 0) return;
        in.append(part, static_cast<std::size_t>(n));
      }
      const Json request = Json::parse(in.substr(0, in.find('\n')));
      in.erase(0, in.find('\n') + 1);
      if (answers > 0)
        send(client, {{"ok", true}, {"id", request["id"]}, {"serial", store_.proposal().serial}});
    }
  }
  static void send(const UniqueFd& to, const Json& line) {
    const std::string text = line.dump() + "\n";
    (void)!::send(to.fd(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  const detail::Log log_{LogLevel::off};
  detail::HostStore store_;
  UniqueFd listens_;
  std::thread thread_;
};

TEST_CASE("host profiles: a process that dies meanwhile is left out") {
  ProfiledHost host;
  for (const int answers : {-1, 0, 1}) {
    CAPTURE(answers);
    const Dying dying(host.folder.path, answers);
    const auto id = static_cast<ProfileId>(7 + answers);
    (void)host.change([&](ProfileSet& set) {  // it checks that all have confirmed
      set.ccs[id] = {ProfileState::online, cc::Algorithm::fixed, CcConfig{}};
    });
    CHECK(host.stored().ccs.contains(id));
  }
}

TEST_CASE("host profiles: queue pairs use them, and EVs are denied and replaced in all devices") {
  ProfiledHost host;
  const auto evs = evs_from(0x1000, 2);
  (void)host.change([&](ProfileSet& set) { set = explicit_set(5, evs); });
  // Each device sends with the host's profile.
  QueuePair& from_a = host.net.pair({5, {}});
  CHECK(host.net.paths(from_a).size() == 4);
  QueuePair& from_b = host.net.b->add_qp({5, {}});
  connect(from_b, host.net.a.add_qp());
  host.net.copy(from_a);
  CHECK(host.states(5) == std::vector(4, EvState::good));

  (void)host.change([&](ProfileSet& set) {
    set.evs[5].entries[1].denied = true;
    set.evs[5].entries[2].ev = ev(0x2002, 1);
  });
  auto before = host.net.paths(from_a);
  CHECK(before.at(0x1001).state == std::string("denied"));
  CHECK(before.contains(0x2002));
  host.net.copy(from_a);
  const auto after = host.net.paths(from_a);
  CHECK(after.at(0x1001).packets == before.at(0x1001).packets);
  CHECK(after.at(0x2002).packets > 0);
  for (const PathReport& path : host.net.b->device.paths(from_b))
    CHECK((path.state == std::string("denied")) == (value(path.ev) == 0x1001));
  CHECK(host.states(5)[1] == EvState::denied);
  CHECK(host.net.a.device.query_ev_profile(5).state == ProfileState::init);  // not the program's

  SUBCASE("GOOD is written: it is, whatever it was, in each device") {
    host.net.network->set_dead(Ev{0x1000}, true);
    while (host.net.paths(from_a).at(0x1000).state != std::string("assumed_bad"))
      host.net.copy(from_a);
    CHECK(host.states(5)[0] == EvState::unknown);  // good from b
    host.net.network->set_dead(Ev{0x1000}, false);
    (void)host.change([](ProfileSet& set) {
      ++set.evs[5].entries[0].writes;
      set.evs[5].entries[1].denied = false;
    });
    CHECK(host.states(5) == std::vector(4, EvState::good));
  }
  SUBCASE("while queue pairs use it, what it is made of does not change: no device has it then") {
    const ProfileSet stored = host.stored();
    const auto busy = make_error_code(Errc::in_use);
    CHECK(host.fails([](ProfileSet& set) { set.evs.erase(5); }) == busy);
    CHECK(host.fails([](ProfileSet& set) { set.evs[5].state = ProfileState::offline; }) == busy);
    CHECK(host.fails([](ProfileSet& set) { set.evs[5].min_active = 2; }) == busy);
    CHECK(host.fails([](ProfileSet& set) { set.formats[1].mode = path::EvMode::stev; }) == busy);
    // One device alone is enough, and what else the change has is not done either.
    host.net.a.qps.erase(host.net.a.qps.begin());
    CHECK(host.fails([](ProfileSet& set) {
      set.evs.erase(5);
      set.ccs[1] = {ProfileState::online, cc::Algorithm::fixed, CcConfig{}};
    }) == busy);
    CHECK(host.stored() == stored);
    CHECK(code_of([&] {
            connect(host.net.a.add_qp({{}, 1}), host.net.b->add_qp());
          }) == make_error_code(Errc::not_found));
    host.net.b->qps.clear();
    (void)host.change([](ProfileSet& set) { set.evs.erase(5); });
    CHECK(host.stored().evs.empty());
  }
}

TEST_CASE("host profiles: devices that nobody tells follow, and those that open later have them") {
  ProfiledHost host;
  const auto evs = evs_from(0x1000, 2);
  (void)host.change([&](ProfileSet& set) { set = explicit_set(5, evs); });
  QueuePair& qp = host.net.pair({5, {}});
  host.net.copy(qp);
  host.write([](ProfileSet& set) { set.evs[5].entries[3].denied = true; });
  CHECK(eventually([&] { return host.net.paths(qp).at(0x1003).state == std::string("denied"); }));
  const auto before = host.net.paths(qp);
  host.net.copy(qp);
  const auto after = host.net.paths(qp);
  CHECK(after.at(0x1003).state == std::string("denied"));
  CHECK(after.at(0x1003).packets == before.at(0x1003).packets);
  CHECK(after.at(0x1000).packets > before.at(0x1000).packets);

  MemoryHost later(host.net.network, 3, ProfiledHost::in(host.folder.path));
  QueuePair& from_later = later.add_qp({5, {}});
  connect(from_later, host.net.b->add_qp());
  const auto paths = later.device.paths(from_later);
  REQUIRE(paths.size() == 4);
  for (const PathReport& path : paths)
    CHECK((path.state == std::string("denied")) == (value(path.ev) == 0x1003));
}

TEST_CASE(
    "host profiles: who can't follow stays with what is in use, but for EVs that are denied") {
  ProfiledHost host;
  (void)host.change([&](ProfileSet& set) { set = explicit_set(5, evs_from(0x1000, 2)); });
  QueuePair& qp = host.net.pair({5, {}});
  host.net.copy(qp);
  host.write([](ProfileSet& set) {  // as if a queue pair had come after the devices were asked
    set.evs[5].min_active = 2;
    set.evs[5].entries[3].denied = true;
  });
  std::size_t named = 0;
  for (const auto& file : control::sockets_in(host.folder.path)) {
    ControlClient client(file.path);
    const Json answer = client.must({{"request", "host_changed"}});
    named += answer.contains("failed") && contains(answer["failed"].dump(), "EV profile 5");
  }
  CHECK(named == 1);  // the other one follows
  const auto before = host.net.paths(qp);
  CHECK(before.at(0x1003).state == std::string("denied"));
  host.net.copy(qp);
  CHECK(host.net.paths(qp).at(0x1003).packets == before.at(0x1003).packets);
}

TEST_CASE("host profiles: the program's own of the same number counts") {
  ProfiledHost host;
  make_profile(host.net.a.device, 5, evs_from(0x3000, 1));
  (void)host.change([&](ProfileSet& set) { set = explicit_set(5, evs_from(0x1000, 2)); });
  CHECK(host.net.paths(host.net.pair({5, {}})).size() == 2);
  QueuePair& from_b = host.net.b->add_qp({5, {}});
  connect(from_b, host.net.a.add_qp());
  CHECK(host.net.b->device.paths(from_b).size() == 4);
  std::size_t listed = 0;
  for (const auto& file : control::sockets_in(host.folder.path)) {
    ControlClient client(file.path);
    const Json profiles = client.must({{"request", "profiles"}})["profiles"];
    for (const Json& profile : profiles) {
      if (profile["kind"] != "ev") continue;
      ++listed;
      CHECK(profile["ev_count"] == (profile["of"] == "host" ? 4 : 2));
      CHECK(!profile.contains("evs"));
    }
    // In parts, too.
    const Json part = client.must({{"request", "profiles"}, {"first", 1}, {"count", 1}});
    CHECK(part["profiles"] == Json::array({profiles[1]}));
    CHECK(part.contains("next") == (profiles.size() > 2));
  }
  CHECK(listed == 3);  // the host's in both, and that of the program
  // While queue pairs use the host's, the program can't make one of its own in its place.
  EvProfileChange change;
  change.state = ProfileState::offline;
  change.mode = EvProfileMode::automatic;
  change.ev_count = 4;
  CHECK(code_of([&] { host.net.b->device.modify_ev_profile(5, change); }) ==
        make_error_code(Errc::in_use));
  host.net.b->device.modify_ev_profile(6, change);
  // A change of the host's means nothing to who uses a profile of the program's.
  (void)host.change([](ProfileSet& set) { set.evs[5].entries[0].denied = true; });
  for (const auto& [name, report] : host.net.paths(host.net.a.qps[0]))
    CHECK(report.state == std::string("good"));
}

TEST_CASE("host profiles: congestion control, and devices that can't send an EV") {
  ProfiledHost host;
  (void)host.change([](ProfileSet& set) {
    CcConfig config;
    config.max_cwnd = 32768;
    set.ccs[3] = {ProfileState::online, cc::Algorithm::fixed, config};
  });
  QueuePair& qp = host.net.pair({{}, 3});
  CHECK(qp.stats().cwnd <= 32768);
  host.net.copy(qp);
  const auto add_evs = [](ProfileSet& set) {
    const ProfileSet evs = explicit_set(5, evs_from(0x1000, 2));
    set.formats = evs.formats;
    set.evs = evs.evs;
  };
  {
    Config config = test_config();  // UDP sockets send their own EVs alone
    config.control = host.folder.path;
    config.udp_port = 21002;
    const Device sockets(config);
    // It goes without, since such EVs are others' by nature, unless all are to be had.
    HostStoreWriter store(host.folder.path, kPatience);
    (void)store.propose(ProfiledHost::changed(store, add_evs));
    for (const auto& file : control::sockets_in(host.folder.path)) {
      ControlClient client(file.path);
      const Json request{{"request", "check_rules"}, {"proposed", true}};
      const bool udp = client.must({{"request", "config"}})["options"]["udp_port"] == "21002";
      CHECK(client.must(request)["unknown"] == (udp ? 1 : 0));
      Json all = request;
      all["all"] = true;
      if (udp)
        CHECK(client.refused(all) == "unsupported");
      else
        CHECK(client.must(all)["unknown"] == 0);
    }
  }
  (void)host.change(add_evs);
  CHECK(host.fails([&](ProfileSet& set) { set.evs[5].entries[0].ev.port = 3; }) ==
        make_error_code(Errc::invalid_argument));
  CHECK(host.stored().evs.at(5).entries[0].ev.port == 1);
  // One that opens later goes without it, and says so.
  Config config = test_config();
  config.control = host.folder.path;
  LogLines lines;
  lines.capture(config, LogLevel::warn);
  const Device sockets(config);
  CHECK(lines.count("EV profile 5") > 0);
}

TEST_CASE("host profiles: as JSON, there and back, and what is wrong is named") {
  ProfileRegistry made = registry();
  made.change_format(1, {ProfileState::offline, path::EvMode::srv6, {}});
  made.change_format(1, {ProfileState::online, {}, {{{16}, {48}, {128}}}});
  EvProfileChange change;
  change.state = ProfileState::offline;
  change.mode = EvProfileMode::generated;
  change.format = 1;
  change.ev_count = 8;
  change.fields = {{16, 0xFCBB, 0, 0, 0}, {48, 0x1000, 1, 200, 0xFF}, {128 / 2, 5, 0, 0, 0}};
  change.fields->push_back({64, ~std::uint64_t{0}, 0, 0, 0});
  (void)made.change_evs(9, change);
  change = {};
  change.operations = {set_state(made.evs(9).entries[2].ev, EvState::denied)};
  (void)made.change_evs(9, change);
  CcProfileChange cc{ProfileState::offline, cc::Algorithm::nscc, CcConfig{}};
  cc.config->eta = 0.25;
  cc.config->target_delay = std::chrono::microseconds(7);
  cc.config->disable_qa = true;
  made.change_cc(2, cc);
  const ProfileSet set = made.set();
  const Json json = detail::to_json(set);
  CHECK(detail::profiles_from_json(Json::parse(json.dump())) == set);
  CHECK(detail::profiles_from_json(Json::object()) == ProfileSet{});
  // A registry that follows it has the same.
  ProfileRegistry other = registry();
  other.follow(set, [](const auto& failure) { throw failure.error; });
  CHECK(other.set() == set);
  CHECK(other.limits().free_evs == made.limits().free_evs);
  // Without a list of EVs, GENERATED ones are made.
  ProfileSet bare = set;
  bare.evs[9].entries.clear();
  other = registry();
  other.follow(bare, [](const auto& failure) { throw failure.error; });
  CHECK(other.set().evs[9].entries.size() == 8);

  struct Wrong {
    const char *text, *named;
  };
  for (const Wrong& wrong : {
           Wrong{"[]", "profiles"},
           {R"({"ev_profile": []})", "ev_profile"},
           {R"({"ev_profiles": 1})", "ev_profiles"},
           {R"({"ev_profiles": [1]})", "ev_profiles"},
           {R"({"ev_profiles": [{"state": "ONLINE"}]})", "id"},
           {R"({"ev_profiles": [{"id": 0, "state": "ONLINE"}]})", "id"},
           {R"({"ev_profiles": [{"id": 1}]})", "EV profile 1: field state"},
           {R"({"ev_profiles": [{"id": 1, "state": "INIT"}]})", "OFFLINE, ONLINE"},
           {R"({"ev_profiles": [{"id": 1, "state": "ONLINE", "mode": "AUT"}]})", "AUTO"},
           {R"({"ev_profiles": [{"id": 1, "state": "ONLINE", "evs": [{"ev": "x"}]}]})", "hexa"},
           {R"({"ev_profiles": [{"id": 1, "state": "ONLINE", "evs": [{"ev": ""}]}]})", "hexa"},
           {R"({"ev_profiles": [{"id": 1, "state": "ONLINE", "evs": [{"ev": "0", "port": 99}]}]})",
            "port"},
           {R"({"ev_profiles": [{"id": 1, "state": "ONLINE"}, {"id": 1, "state": "ONLINE"}]})",
            "twice"},
           {R"({"format_profiles": [{"id": 1, "state": "ONLINE", "fields": [-1]}]})", "fields"},
           {R"({"cc_profiles": [{"id": 1, "state": "ONLINE", "algorithm": "reno"}]})", "fixed"},
           {R"({"cc_profiles": [{"id": 1, "state": "ONLINE", "config": {"beta": 1}}]})", "beta"},
           {R"({"cc_profiles": [{"id": 1, "state": "ONLINE", "config": {"eta": "x"}}]})", "eta"},
       }) {
    CAPTURE(wrong.text);
    const Error error =
        thrown_by([&] { (void)detail::profiles_from_json(Json::parse(wrong.text)); });
    CHECK(error.code() == make_error_code(Errc::invalid_argument));
    INFO(error.what());
    CHECK(contains(error.what(), wrong.named));
  }

  // What a set lacks is named as what a call lacks.
  const auto lacks = [&](const std::function<void(ProfileSet&)>& spoil, Errc code) {
    ProfileSet broken = explicit_set(5, evs_from(0x1000, 2));
    spoil(broken);
    ProfileRegistry all = registry();
    const ProfileSet before = all.set();
    CHECK(code_of([&] { all.follow(broken, [](const auto& failure) { throw failure.error; }); }) ==
          make_error_code(code));
    CHECK(all.set() == before);
  };
  const Errc bad = Errc::invalid_argument;
  lacks([](ProfileSet& s) { s.formats.clear(); }, Errc::not_found);
  lacks([](ProfileSet& s) { s.formats[1].fields.reset(); }, bad);
  lacks([](ProfileSet& s) { s.formats[1].state = ProfileState::offline; }, Errc::invalid_state);
  lacks([](ProfileSet& s) { s.evs[5].entries.pop_back(); }, bad);
  lacks([](ProfileSet& s) { s.evs[5].entries[0].ev.port = 3; }, bad);
  lacks([](ProfileSet& s) { s.evs[5].entries[0].ev = {}; }, bad);
  lacks([](ProfileSet& s) { s.evs[5].min_active = 5; }, bad);
  lacks([](ProfileSet& s) { s.evs[5].event_mask = 4; }, bad);
  lacks([](ProfileSet& s) { s.evs[5].ev_count = 5000; }, Errc::no_resources);
  lacks([](ProfileSet& s) { s.ccs[1] = {ProfileState::offline, {}, {}}; }, bad);
  lacks([](ProfileSet& s) { s.ccs[0] = {ProfileState::offline, cc::Algorithm::none, {}}; }, bad);
}

}  // namespace host_profiles_test
