// SPDX-License-Identifier: Apache-2.0
// Slots of packet ports are locks in a folder that strangers can't write to.
#include "mrc/fabric/packet_link.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "support/network.hpp"
#include "support/own_folder.hpp"

using namespace mrc;
using namespace mrc::port;

namespace packet_slot_test {

/// A folder for the life of a test, and in it, the one for locks.
struct Folder : mrc::test::OwnFolder {
  [[nodiscard]] std::string locks() const { return path + "/locks"; }
  [[nodiscard]] std::string file() const {
    struct stat s {};
    REQUIRE(::stat("/proc/thread-self/ns/net", &s) == 0);
    return locks() + "/net-" + std::to_string(s.st_ino) + ".slots";
  }
};

template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) ::_exit(f());
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool become_nobody() {
  constexpr unsigned kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

TEST_CASE("packet slots: each claim gets one of its own, and gives it back") {
  const Folder folder;
  std::vector<PacketSlotClaim> claims;
  for (unsigned i = 0; i < 256; ++i) {
    claims.push_back(claim_packet_slot(folder.locks()));
    CHECK(claims.back().slot == i);
  }
  CHECK_THROWS_WITH_AS((void)claim_packet_slot(folder.locks()),
                       doctest::Contains("all 256 slots of this host are in use"), Error);
  claims[7].lock.close();
  CHECK(claim_packet_slot(folder.locks()).slot == 7);
  CHECK_THROWS_WITH_AS((void)claim_packet_slot(folder.locks(), 8),
                       doctest::Contains("slot 8 is in use"), Error);
}

TEST_CASE("packet slots: those of a process end with it") {
  const Folder folder;
  CHECK(in_child([&] { return claim_packet_slot(folder.locks()).slot; }) == 0);
  CHECK(in_child([&] {
          PacketSlotClaim claim = claim_packet_slot(folder.locks());
          return claim.lock.open() ? 0 : 1;  // _exit(): no destructor runs
        }) == 0);
  const PacketSlotClaim held = claim_packet_slot(folder.locks());
  CHECK(held.slot == 0);
  CHECK(in_child([&] { return claim_packet_slot(folder.locks()).slot; }) == 1);
}

TEST_CASE("packet slots: network namespaces that share the folder have slots of their own") {
  const Folder folder;
  const PacketSlotClaim outside = claim_packet_slot(folder.locks());
  CHECK(outside.slot == 0);
  mrc::test::in_new_network([&] { CHECK(claim_packet_slot(folder.locks()).slot == 0); });
}

TEST_CASE("packet slots: abstract names, which any user can take, say nothing") {
  const Folder folder;
  std::vector<UniqueFd> taken;
  for (unsigned slot = 0; slot < 4; ++slot) {
    taken.emplace_back(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const std::string name = "openmrc/packet/slot/" + std::to_string(slot);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    (void)::bind(taken.back().fd(), reinterpret_cast<const sockaddr*>(&address), size);
  }
  CHECK(claim_packet_slot(folder.locks()).slot == 0);
}

TEST_CASE("packet slots: what others may have put there is refused, not followed") {
  const Folder folder;
  (void)claim_packet_slot(folder.locks());  // makes folder and file
  const std::string file = folder.file(), victim = folder.locks() + "/victim";
  struct stat s {};
  REQUIRE(::stat(file.c_str(), &s) == 0);
  CHECK((s.st_mode & 07777) == 0660);
  REQUIRE(::stat(folder.locks().c_str(), &s) == 0);
  CHECK((s.st_mode & S_IWOTH) == 0);

  SUBCASE("a link") {
    mrc::test::shell("rm " + file + "; ln -s " + victim + " " + file);
    CHECK_THROWS_AS((void)claim_packet_slot(folder.locks()), Error);
    CHECK(::lstat(victim.c_str(), &s) != 0);
  }
  SUBCASE("a pipe, which would hang who opens it") {
    mrc::test::shell("rm " + file + "; mkfifo " + file);
    CHECK_THROWS_WITH_AS((void)claim_packet_slot(folder.locks()),
                         doctest::Contains("is not a regular file"), Error);
  }
  SUBCASE("a folder that all may write to") {
    REQUIRE(::chmod(folder.locks().c_str(), 01777) == 0);
    CHECK_THROWS_WITH_AS((void)claim_packet_slot(folder.locks()),
                         doctest::Contains("which other users could take"), Error);
  }
  SUBCASE("a link to a folder") {
    mrc::test::shell("mv " + folder.locks() + " " + folder.locks() + "2; ln -s " + folder.locks() +
                     "2 " + folder.locks());
    CHECK_THROWS_AS((void)claim_packet_slot(folder.locks()), Error);
  }
}

TEST_CASE("packet slots: a user without rights in the folder is told what to do") {
  if (::geteuid() != 0) {
    std::puts("[test skipped] becoming another user needs root");
    return;
  }
  const Folder folder;
  (void)claim_packet_slot(folder.locks());
  mrc::test::shell("chmod 755 $(dirname " + folder.locks() + ")");
  const auto refused = [&] {
    if (!become_nobody()) return 9;
    try {
      (void)claim_packet_slot(folder.locks());
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.find("install -d") != std::string::npos &&
                     text.find("lock_folder") != std::string::npos
                 ? 0
                 : 2;
    }
    return 1;
  };
  CHECK(in_child(refused) == 0);
  // Nor can it open the file for reading, which is enough for some kinds of locks.
  const std::string file = folder.file();
  CHECK(in_child([&] {
          if (!become_nobody()) return 9;
          return ::open(file.c_str(), O_RDONLY | O_CLOEXEC) < 0 ? 0 : 1;
        }) == 0);
}

}  // namespace packet_slot_test
