// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "nccl_plugin/host/debug_log.hpp"
#include "nccl_plugin/host/library.hpp"

// Plugins of test/nccl/fake_plugin.cpp, which are found by name beside this program:
//   fake, versions 6 to 12, named "Fake"; old, versions 6 to 8, "Old"; and empty, without tables.

namespace host_test {

using nccl_abi::LogLevel;
using nccl_host::Communicator;
using nccl_host::DebugLog;
using nccl_host::PluginLibrary;
using nccl_host::Result;
using nccl_host::Selection;

Selection select_plugin(const std::string& plugins, const std::string& net = "") {
  Selection selection;
  selection.plugins = plugins;
  selection.net = net;
  return selection;
}

nccl_host::CommunicatorInit quiet_init(std::uint64_t comm_id = 1) {
  DebugLog::instance().print_to(nullptr);
  return {.comm_id = comm_id, .traffic_class = 7, .logger = DebugLog::logger()};
}

/// A counter of a fake plugin that is loaded.
int counter_of(const Communicator& communicator, const char* name) {
  void* handle = dlopen(communicator.file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(handle != nullptr);
  const int value = static_cast<std::atomic<int>*>(dlsym(handle, name))->load();
  dlclose(handle);
  return value;
}

/// A variable for the time of a test.
struct Variable {
  Variable(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

TEST_CASE("NCCL_NET_PLUGIN names up to 14 plugins, and none turns them off") {
  using Names = std::vector<std::string>;
  CHECK(nccl_host::plugin_names("") == Names{"libnccl-net.so"});
  CHECK(nccl_host::plugin_names("None").empty());
  CHECK(nccl_host::plugin_names("a,,b,/c/d.so,") == Names{"a", "b", "/c/d.so"});
  CHECK(nccl_host::plugin_names("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16").size() == 14);
  CHECK(nccl_host::plugin_names(std::string(255, 'a') + ",b") == Names{"b"});
  CHECK(nccl_host::files_of("mrc") == Names{"mrc", "libnccl-net-mrc.so"});
  CHECK(nccl_host::files_of("libmrc.so") == Names{"libmrc.so"});
  CHECK(nccl_host::files_of("./mrc") == Names{"./mrc"});
  CHECK(nccl_host::files_of("STATIC_PLUGIN") == Names{""});

  PluginLibrary none(select_plugin("none"));
  const Communicator communicator = none.open(quiet_init());
  CHECK_FALSE(communicator);
  CHECK(communicator.reason == "NCCL_NET_PLUGIN=none");
}

TEST_CASE("The environment selects the plugin") {
  const Variable plugin("NCCL_NET_PLUGIN", "fake");
  const Variable net("NCCL_NET", "fAkE");
  PluginLibrary library;
  Communicator communicator = library.open(quiet_init());
  REQUIRE_MESSAGE(communicator, communicator.reason);
  CHECK(communicator.plugin == "fake");
  CHECK(communicator.file == "libnccl-net-fake.so");
  CHECK(communicator.devices == 1);
  CHECK(std::string(communicator.net->name()) == "Fake");
  CHECK(library.close(communicator) == Result::success);
}

TEST_CASE("The newest version that both sides know is used") {
  for (int newest = 6; newest <= 12; ++newest) {
    Selection selection = select_plugin("fake");
    selection.newest_api = newest;
    PluginLibrary library(selection);
    Communicator communicator = library.open(quiet_init());
    REQUIRE(communicator);
    CHECK(communicator.net->version() == newest);
    library.close(communicator);
  }
  PluginLibrary library(select_plugin("old"));
  Communicator communicator = library.open(quiet_init());
  REQUIRE(communicator);
  CHECK(communicator.net->version() == 8);
  library.close(communicator);

  Selection selection = select_plugin("old");
  selection.oldest_api = 9;
  PluginLibrary too_old(selection);
  communicator = too_old.open(quiet_init());
  CHECK_FALSE(communicator);
  CHECK(communicator.reason ==
        "old: has no symbol ncclNetPlugin_v11 nor an older one down to ncclNetPlugin_v9");
}

TEST_CASE("Candidates are passed over that are missing, have no table or another name") {
  PluginLibrary library(select_plugin("missing,empty,old,fake", "fake"));
  Communicator communicator = library.open(quiet_init());
  REQUIRE(communicator);
  CHECK(communicator.plugin == "fake");
  library.close(communicator);

  PluginLibrary other(select_plugin("missing,empty,fake", "Socket"));
  communicator = other.open(quiet_init());
  CHECK_FALSE(communicator);
  const auto said = [&](const char* text) {
    return communicator.reason.find(text) != std::string::npos;
  };
  CHECK(said("missing: "));
  CHECK(said("cannot open shared object file"));
  CHECK(said("empty: has no symbol ncclNetPlugin_v11"));
  CHECK(said("fake: its name is Fake, and NCCL_NET=Socket"));
}

TEST_CASE("A plugin that fails is finalised and disabled, and the next one is tried") {
  for (const char* where : {"init", "devices", "no-devices"}) {
    CAPTURE(where);
    DebugLog::instance().clear();
    PluginLibrary library(select_plugin("fake,old"));
    {
      const Variable fail("FAKE_FAIL", where);
      const Communicator communicator = library.open(quiet_init());
      CHECK_FALSE(communicator);
      CHECK(communicator.reason.find("fake: ") != std::string::npos);
      CHECK(communicator.reason.find("old: ") != std::string::npos);
    }
    const auto lines =
        DebugLog::instance().lines(LogLevel::info, "Failed to initialize NET plugin");
    CHECK(lines.size() == 2);
    void* handle = dlopen("libnccl-net-fake.so", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(handle != nullptr);
    CHECK(*static_cast<std::atomic<int>*>(dlsym(handle, "fake_finalizes")) == 1);
    dlclose(handle);
    CHECK_FALSE(library.open(quiet_init()));  // although it would work now
  }
}

TEST_CASE("Version 11 is initialised for each communicator, version 10 once") {
  for (const int version : {10, 11}) {
    CAPTURE(version);
    Selection selection = select_plugin("fake");
    selection.newest_api = version;
    PluginLibrary library(selection);
    Communicator first = library.open(quiet_init(1));
    Communicator second = library.open(quiet_init(2));
    REQUIRE(first);
    REQUIRE(second);
    CHECK(first.context != second.context);
    CHECK(counter_of(first, "fake_inits") == (version >= 11 ? 2 : 1));
    CHECK(library.close(first) == Result::success);
    CHECK(counter_of(second, "fake_finalizes") == (version >= 11 ? 1 : 0));
    CHECK(library.close(second) == Result::success);
    // The last one unloads the file, and the next loads it afresh.
    CHECK(dlopen("libnccl-net-fake.so", RTLD_NOW | RTLD_NOLOAD) == nullptr);
    Communicator third = library.open(quiet_init(3));
    REQUIRE(third);
    CHECK(counter_of(third, "fake_inits") == 1);
    library.close(third);
  }
}

TEST_CASE("The traffic class reaches version 11 at init and version 10 at connect") {
  for (const int version : {10, 11}) {
    CAPTURE(version);
    Selection selection = select_plugin("fake");
    selection.newest_api = version;
    PluginLibrary library(selection);
    Communicator communicator = library.open(quiet_init());
    REQUIRE(communicator);
    CHECK(counter_of(communicator, "fake_traffic_class") == (version >= 11 ? 7 : 0));
    char handle[nccl_abi::kHandleBytes] = {};
    void* listener = nullptr;
    void* sender = nullptr;
    auto& net = *communicator.net;
    REQUIRE(net.listen(communicator.context, 0, handle, &listener) == Result::success);
    REQUIRE(net.connect(communicator.context, 0, handle, &sender) == Result::success);
    CHECK(counter_of(communicator, "fake_traffic_class") == 7);
    net.close_send(sender);
    net.close_listen(listener);
    library.close(communicator);
  }
}

TEST_CASE("Properties that an old version lacks are what NCCL puts there") {
  for (int version = 6; version <= 12; ++version) {
    CAPTURE(version);
    Selection selection = select_plugin("fake");
    selection.newest_api = version;
    PluginLibrary library(selection);
    Communicator communicator = library.open(quiet_init());
    REQUIRE(communicator);
    nccl_host::Properties properties;
    REQUIRE(communicator.net->properties(0, &properties) == Result::success);
    CHECK(properties.name == "fake0");
    CHECK(properties.speed == 10000);
    CHECK(properties.max_receives == 8);
    CHECK(properties.registration_is_global == (version >= 8 ? 1 : 0));
    CHECK(properties.members == std::vector<int>{0});
    CHECK(properties.max_p2p_bytes == std::size_t{1} << (version >= 9 ? 40 : 30));
    CHECK(properties.rail == (version >= 12 ? 0 : -1));
    library.close(communicator);
  }
}

TEST_CASE("Version 8 and older refuse more than 1 GiB at once") {
  Selection selection = select_plugin("old");
  PluginLibrary library(selection);
  Communicator communicator = library.open(quiet_init());
  REQUIRE(communicator);
  std::size_t size = nccl_host::kMostBytesOfOldApi + 1;
  void* request = nccl_abi::optional_receive_completion();
  int tag = 0;
  char data = 0;
  void* place = &data;
  void* comm = &data;  // not looked at
  CHECK(communicator.net->isend(comm, &data, size, 0, comm, nullptr, &request) ==
        Result::internal_error);
  request = nccl_abi::optional_receive_completion();
  CHECK(communicator.net->irecv(comm, 1, &place, &size, &tag, &comm, nullptr, &request) ==
        Result::internal_error);
  CHECK(request == nullptr);
  library.close(communicator);
}

TEST_CASE("The debug log keeps every line and prints what NCCL_DEBUG asks for") {
  auto& log = DebugLog::instance();
  const auto printed = [&](const char* level, const char* subsystems) {
    const Variable debug("NCCL_DEBUG", level);
    const Variable subsystem("NCCL_DEBUG_SUBSYS", subsystems);
    std::FILE* file = std::tmpfile();
    REQUIRE(file != nullptr);
    log.clear();
    log.read_environment();
    log.print_to(file);
    DebugLog::logger()(LogLevel::warn, nccl_abi::kLogNet, "a.cpp", 5, "no %s", "path");
    DebugLog::logger()(LogLevel::info, nccl_abi::kLogNet, "a.cpp", 6, "up %d", 3);
    log.print_to(nullptr);
    std::string text(1000, '\0');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  CHECK(printed("VERSION", "ALL").empty());
  const std::string warning = printed("warn", "ALL");
  CHECK(warning.find("a.cpp:5 NCCL WARN no path\n") != std::string::npos);
  CHECK(warning.find("up 3") == std::string::npos);
  CHECK(printed("INFO", "INIT").find("up 3") == std::string::npos);
  CHECK(printed("INFO", "INIT,NET").find(" NCCL INFO up 3\n") != std::string::npos);
  const auto lines = log.lines(LogLevel::info, "up");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].text == "up 3");
  CHECK(lines[0].flags == nccl_abi::kLogNet);
}

}  // namespace host_test
