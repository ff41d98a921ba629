// SPDX-License-Identifier: Apache-2.0
// What processes leave behind (option dump). Most tests are children that start threads, or die.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "host/control_rig.hpp"
#include "mrc/control/dumps.hpp"
#include "mrc/host/device_core.hpp"

using namespace mrc;
using namespace mrc::test;

namespace dumps_test {

/// What a child did: its status, and the dumps that it left.
struct Left {
  int status = 0;
  std::vector<nlohmann::json> dumps;
};

/// In the child: the file has that many whole lines.
void await_lines(const Config& config, int count) {
  const std::string name =
      config.dump.substr(0, config.dump.find('%')) + std::to_string(::getpid()) + ".json";
  for (std::string text; std::count(text.begin(), text.end(), '\n') < count;) {
    std::ifstream file(name);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
}

/// Runs `child` with a configuration whose dumps are read afterwards.
template <class F>
Left left_by(F&& child) {
  const OwnFolder folder;
  Config config = test_config();
  config.control = "off";
  config.dump = folder.path + "/dump-%p.json";
  std::fflush(nullptr);  // the child has what is in the buffers, too
  const ::pid_t pid = ::fork();
  if (pid == 0) {
    detail::dump_patience = 200'000;  // of a busy machine
    child(config);
    ::_exit(99);
  }
  Left left;
  REQUIRE(::waitpid(pid, &left.status, 0) == pid);
  std::ifstream file(folder.path + "/dump-" + std::to_string(pid) + ".json");
  for (std::string line; std::getline(file, line);)
    left.dumps.push_back(nlohmann::json::parse(line));
  return left;
}

TEST_CASE("dumps: closed devices, SIGUSR2, exit") {
  const Left left = left_by([](const Config& config) {
    { const Device closed(config); }
    Pair& pair = *new Pair(config);  // never closed
    pair.copy_all();
    ::raise(SIGUSR2);
    pair.copy_all();  // it goes on
    await_lines(config, 3);
    std::quick_exit(99);
  });
  CHECK(WIFEXITED(left.status));
  REQUIRE(left.dumps.size() == 3);
  CHECK(left.dumps[0]["why"] == "closed");
  for (std::size_t i = 1; i < 3; ++i) {
    const nlohmann::json& dump = left.dumps[i];
    CHECK(dump["why"] == "SIGUSR2");
    CHECK(dump["pid"] != ::getpid());
    CHECK(dump["planes"].size() == 2);
    REQUIRE(dump["queue_pairs"].size() == 1);
    CHECK(dump["peers"].size() == 1);
    CHECK(dump["paths"][0]["paths"].size() == 8);
    CHECK(dump["counters"]["engine"].is_object());
    CHECK(dump["config"]["paths"] == "4");
    CHECK(dump["events"].is_array());
  }
}

TEST_CASE("dumps: a process that exits with open devices") {
  const Left left = left_by([](const Config& config) {
    (void)new Device(config);
    std::exit(7);
  });
  CHECK(WEXITSTATUS(left.status) == 7);
  REQUIRE(left.dumps.size() == 1);
  CHECK(left.dumps[0]["why"] == "exit");
}

TEST_CASE("dumps: signals that end a process still do, and the handlers before are called") {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) {
    INFO(signal);
    const auto dies = [&](bool handler, auto&& by) {
      const Left left = left_by([&](const Config& config) {
        ::signal(signal, SIG_DFL);  // doctest has handlers, too
        if (handler) ::signal(signal, [](int) { ::_exit(42); });
        const Device device(config);
        by();
      });
      REQUIRE(left.dumps.size() == 1);
      CHECK(left.dumps[0]["counters"].is_object());
      CHECK((handler ? WIFEXITED(left.status) && WEXITSTATUS(left.status) == 42
                     : WIFSIGNALED(left.status) && WTERMSIG(left.status) == signal));
      return left.dumps[0]["why"].get<std::string>();
    };
    const std::string why = dies(false, [&] { ::raise(signal); });
    CHECK(why.starts_with("SIG"));
    CHECK(dies(true, [&] { ::raise(signal); }) == why);
  }
  const Left fault = left_by([](const Config& config) {
    ::signal(SIGSEGV, SIG_DFL);
    const Device device(config);
    *static_cast<volatile int*>(nullptr) = 1;
  });
  CHECK((WIFSIGNALED(fault.status) && WTERMSIG(fault.status) == SIGSEGV));
  REQUIRE(fault.dumps.size() == 1);
}

TEST_CASE("dumps: a thread that dies with a lane's lock leaves what can be had without it") {
  const Left left = left_by([](const Config& config) {
    ::signal(SIGABRT, SIG_DFL);
    detail::DeviceCore core(config);
    core.lanes()[0].with_engine([](engine::Engine&, Time) { std::abort(); });
  });
  CHECK((WIFSIGNALED(left.status) && WTERMSIG(left.status) == SIGABRT));
  REQUIRE(left.dumps.size() == 1);
  CHECK(left.dumps[0]["why"] == "SIGABRT");
  CHECK(left.dumps[0]["busy"] == true);
  CHECK(left.dumps[0]["config"]["paths"] == "4");
  CHECK(!left.dumps[0].contains("counters"));
}

TEST_CASE("dumps: handlers that call each other, and devices that come and go") {
  const Left left = left_by([](const Config& config) {
    static void (*earlier)(int);
    static int calls = 0;
    {
      const Device first(config);
      earlier = ::signal(SIGUSR2, [](int signal) {
        ++calls;
        earlier(signal);
      });
    }
    const Device second(config);
    ::raise(SIGUSR2);
    await_lines(config, 2);
    ::_exit(calls == 1 ? 0 : 1);
  });
  CHECK(left.status == 0);
}

TEST_CASE("dumps: each signal that a program survives leaves one, up to a few") {
  const Left left = left_by([](const Config& config) {
    ::signal(SIGTERM, [](int) {});
    const Device device(config);
    for (int i = 0; i < 10; ++i) ::raise(SIGTERM);
    ::_exit(0);
  });
  CHECK(left.status == 0);
  CHECK(left.dumps.size() == 3);
}

TEST_CASE("dumps: a forked child's signals leave none of its parent's devices") {
  const Left left = left_by([](const Config& config) {
    ::signal(SIGABRT, SIG_DFL);
    auto* device = new Device(config);
    const ::pid_t child = ::fork();
    if (child == 0) {
      ::raise(SIGUSR2);
      std::abort();
    }
    int status = 0;
    (void)::waitpid(child, &status, 0);
    delete device;
    ::_exit(WTERMSIG(status) == SIGABRT ? 0 : 1);
  });
  CHECK(left.status == 0);
  REQUIRE(left.dumps.size() == 1);
  CHECK(left.dumps[0]["why"] == "closed");
}

TEST_CASE("dumps: a link that takes the file's name later is not followed") {
  const OwnFolder folder;
  Config config = test_config();
  config.dump = folder.path + "/dump.json";
  const std::string target = folder.path + "/target";
  std::ofstream(target) << "untouched";
  {
    const Device device(config);
    std::filesystem::create_symlink(target, config.dump);
  }
  CHECK(std::filesystem::file_size(target) == 9);
}

TEST_CASE("dumps: without devices that leave them, no handler is left") {
  const OwnFolder folder;
  Config config = test_config();
  config.dump = folder.path + "/dump.json";
  struct sigaction before {
  }, with{}, after{};
  REQUIRE(::sigaction(SIGUSR2, nullptr, &before) == 0);
  {
    const Device one(config), two(config);
    REQUIRE(::sigaction(SIGUSR2, nullptr, &with) == 0);
    CHECK((with.sa_sigaction != before.sa_sigaction));
  }
  REQUIRE(::sigaction(SIGUSR2, nullptr, &after) == 0);
  CHECK((after.sa_handler == before.sa_handler));
  config.dump = folder.path + "/not/there.json";
  CHECK_THROWS_WITH_AS(Device{config}, doctest::Contains("not/there.json"), Error);
  const std::string link = folder.path + "/link.json";
  std::filesystem::create_symlink(folder.path + "/target.json", link);
  config.dump = link;
  CHECK_THROWS_WITH_AS(Device{config}, doctest::Contains("links are not followed"), Error);
  config.dump = "relative.json";
  CHECK_THROWS_AS(Device{config}, Error);
}

}  // namespace dumps_test
