// SPDX-License-Identifier: Apache-2.0
// Names of control sockets, and sockets that nobody listens on any more.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/control_rig.hpp"
#include "mrc/control/client.hpp"

using namespace mrc;
using namespace mrc::test;
using control::SocketName;

namespace run_folder_test {

TEST_CASE("control sockets: names, and what is none") {
  const SocketName name{4711, 4026531836, 0x00ff00000000abcd};
  CHECK(control::to_string(name) == "4711-4026531836-00ff00000000abcd.sock");
  CHECK(control::parse_socket_name(control::to_string(name)) == name);
  for (const char* other :
       {"", "x", ".sock", "4711.sock", "4711-1.sock", "4711-1-1.sock", "4711-1-00ff00000000abcd",
        "4711-1-00ff00000000abcd.sock~", "-1--00ff00000000abcd.sock",
        "04711-1-00ff00000000abcd.sock", "4711-1-00FF00000000abcd.sock",
        "99999999999-1-00ff00000000abcd.sock", "../-1-00ff00000000abcd.sock"}) {
    CAPTURE(other);
    CHECK(!control::parse_socket_name(other));
  }
  CHECK(control::make_socket_name().pid == ::getpid());
  CHECK(control::make_socket_name().id != control::make_socket_name().id);
}

TEST_CASE("control sockets: those of processes that are gone are removed, others stay") {
  const OwnFolder folder;
  const SocketName here = control::make_socket_name();
  const auto path_of = [&](::pid_t pid, std::uint64_t pid_namespace, std::uint64_t id) {
    return folder.path + "/" + control::to_string(SocketName{pid, pid_namespace, id});
  };
  // A pid that no process has: above the kernel's limit.
  const ::pid_t gone = 1 << 23;
  const std::string dead = path_of(gone, here.pid_namespace, 1),
                    elsewhere = path_of(gone, here.pid_namespace + 1, 2),
                    quiet = path_of(::getpid(), here.pid_namespace, 3),
                    listening = path_of(gone, here.pid_namespace, 4);
  for (const std::string& path : {dead, elsewhere, quiet}) (void)control::listen_unix(path);
  const UniqueFd listener = control::listen_unix(listening);
  std::ofstream(path_of(gone, here.pid_namespace, 5)) << "a file that is no socket";
  REQUIRE(control::sockets_in(folder.path).size() == 5);
  control::remove_stale(folder.path);
  CHECK(!std::filesystem::exists(dead));
  CHECK(std::filesystem::exists(elsewhere));  // of another PID namespace: nobody here can tell
  CHECK(std::filesystem::exists(quiet));
  CHECK(std::filesystem::exists(listening));
  CHECK(control::sockets_in(folder.path).size() == 4);
  CHECK(control::remove_if_stale(elsewhere));
  CHECK(!control::remove_if_stale(listening));
  // A folder that is led to by a link is nobody's that this user knows.
  const OwnFolder other;
  std::filesystem::create_directory_symlink(folder.path, other.path + "/link");
  const std::string led = other.path + "/link" + quiet.substr(quiet.rfind('/'));
  CHECK(!control::remove_if_stale(led));
  CHECK(std::filesystem::exists(quiet));
  CHECK(!control::remove_if_stale(path_of(gone, here.pid_namespace, 5)));
  CHECK(!control::remove_if_stale(folder.path + "/nothing"));
  control::remove_stale(folder.path + "/not/there");
}

TEST_CASE("control sockets: this user's come first, and others' are limited by user") {
  if (::geteuid() != 0) {
    std::puts("[test skipped] making files of other users needs root");
    return;
  }
  const OwnFolder folder;
  const auto make = [&](::pid_t pid, std::uint64_t id, ::uid_t owner) {
    const std::string path = folder.path + "/" + control::to_string(SocketName{pid, 1, id});
    std::ofstream(path) << "";
    REQUIRE(::chown(path.c_str(), owner, 0) == 0);
  };
  for (std::uint64_t id = 0; id < control::kMostOfUser + 8; ++id) make(1, id, 1001);
  make(2, 1, 1002);
  make(3, 1, 0);
  std::filesystem::create_symlink("/dev/null",
                                  folder.path + "/" + control::to_string(SocketName{4, 1, 1}));
  const auto sockets = control::sockets_in(folder.path);
  REQUIRE(sockets.size() == 1 + control::kMostOfUser + 1);
  CHECK(sockets.front().name.pid == 3);
  CHECK(sockets.front().owner == 0);
  CHECK(sockets.back().name.pid == 2);
}

TEST_CASE("control sockets: of several folders this user's and root's come first") {
  if (::geteuid() != 0) {
    std::puts("[test skipped] making files of other users needs root");
    return;
  }
  const OwnFolder first, second;
  const auto make = [](const OwnFolder& folder, ::uid_t owner) {
    const std::string path = folder.path + "/" + control::to_string(SocketName{1, 1, owner});
    std::ofstream(path) << "";
    REQUIRE(::chown(path.c_str(), owner, 0) == 0);
  };
  make(first, 1001);
  make(second, 0);
  make(second, 1002);
  std::vector<::uid_t> owners;
  for (const auto& socket : control::sockets_in(std::vector{first.path, second.path}))
    owners.push_back(socket.owner);
  CHECK(owners == std::vector<::uid_t>{0, 1001, 1002});
}

TEST_CASE("control sockets: what one throws is returned, and the others are asked") {
  std::atomic<int> asked{0};
  const auto thrown = control::all_at_once(3, [&](std::size_t i) {
    ++asked;
    if (i != 0) throw std::runtime_error(std::to_string(i));
  });
  CHECK(asked == 3);
  REQUIRE(thrown.size() == 3);
  CHECK(!thrown[0]);
  CHECK_THROWS_WITH(std::rethrow_exception(thrown[1]), "1");
  CHECK_THROWS_WITH(std::rethrow_exception(thrown[2]), "2");
}

TEST_CASE("control sockets: what is asked at once is asked at the same time, each once") {
  for (const std::size_t count : {0, 1, 50}) {
    std::vector<std::atomic<int>> asked(count);
    std::atomic<std::size_t> there{0};
    const auto thrown = control::all_at_once(
        count,
        [&](std::size_t i) {
          ++asked[i];
          ++there;
          CHECK(eventually([&] { return there == count; }));
        },
        [] {});
    CHECK(thrown == std::vector<std::exception_ptr>(count));
    for (const auto& times : asked) CHECK(times == 1);
  }
}

}  // namespace run_folder_test
