// SPDX-License-Identifier: Apache-2.0
// Verification tags of devices: told to the peer, checked on sockets, logged where asked for.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "device/gid_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace tags_test {

struct TemporaryFile {
  TemporaryFile() {
    char name[] = "/tmp/openmrc-keys-XXXXXX";
    folder = ::mkdtemp(name);
    path = folder + "/keys";
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder); }
  std::string folder, path;
};

std::uint64_t bad_tags(const Device& device) {
  return device.stats().engine.drops.bad_tag;
}

TEST_CASE("tags of devices: both sides use them, and a side that was told none has plain packets") {
  for (const bool told : {true, false}) {
    Side a(test_config()), b(Pair::other(test_config()));
    QueuePair &to = a.add_qp(), &from = b.add_qp();
    ConnectionInfo first = to.local_info(), second = from.local_info();
    CHECK(first.tag != 0);
    CHECK(first.tag != second.tag);
    CHECK(decode_connection_info(encode(first)) == first);
    CHECK(contains(to_string(first), "tagged"));
    if (!told) first.tag = second.tag = 0;  // like the other implementations'
    to.connect(second);
    from.connect(first);
    for (int i = 0; i < 20; ++i) copy_one(a, to, b);
    CHECK(bad_tags(a.device) + bad_tags(b.device) == 0);
  }
}

TEST_CASE("tags of devices: a peer with a wrong tag gets nothing done") {
  Side a(test_config()), b(Pair::other(test_config()));
  QueuePair &to = a.add_qp(), &from = b.add_qp();
  ConnectionInfo wrong = from.local_info();
  wrong.tag ^= 1;  // of the 32 bits in the iCRC
  from.connect(to.local_info());
  to.connect(wrong);
  REQUIRE(post_copy(a, to, b, 0, 1000) == Errc::ok);
  CHECK(eventually([&] { return b.device.stats().engine.drops.bad_icrc > 0; }));
  CHECK(from.stats().rx_packets == 0);
  CHECK(to.stats().writes_completed == 0);
}

TEST_CASE("tags of devices: without the iCRC only the bits of the BTH are left") {
  Config config = test_config();
  config.icrc = port::Offload::off;
  Pair pair(config);
  CHECK((pair.a.qps[0].local_info().tag & 0xFFFFFFFF) == 0);
  CHECK(pair.a.qps[0].local_info().tag != 0);
  pair.copy_all();
}

TEST_CASE("keylog: the tags of both sides, for the owner only, appended") {
  const TemporaryFile file;
  Config config = test_config("loopback:2");
  config.keylog = file.path;
  std::set<std::string> expected;
  const auto expect = [&](Side& side) {
    const ConnectionInfo info = side.qps[0].local_info();
    for (const port::PeerAddress& plane : info.planes) {
      char line[128];
      std::snprintf(line, sizeof line, "MRC_TAG %s 0x%06x 0x%016llx",
                    port::format_ip(plane.ip).c_str(), value(info.qpn),
                    static_cast<unsigned long long>(info.tag));
      expected.insert(line);
    }
  };
  for (int run = 0; run < 2; ++run) {
    Pair pair(config);
    expect(pair.a);
    expect(pair.b);
  }
  std::ifstream in(file.path);
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  CHECK(lines == expected);
  struct stat status {};
  REQUIRE(::stat(file.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("keylog: a file that can't be opened is named") {
  Config config = test_config();
  config.keylog = "/nonexistent/keys";
  const Error error = thrown_by([&] { Device device(config); });
  CHECK(contains(error.what(), "/nonexistent/keys"));
  CHECK(contains(error.what(), "keylog"));
}

TEST_CASE("keylog: no file with another name, which others may have given it, or that they read") {
  const TemporaryFile file;
  const auto refused = [&](const char* why) {
    const Error error = thrown_by([&] { const detail::KeyLog log(file.path); });
    CHECK(contains(error.what(), file.path));
    CHECK(contains(error.what(), why));
  };
  std::ofstream(file.path) << "";
  std::filesystem::permissions(file.path, std::filesystem::perms(0644));
  refused("chmod 600");
  std::filesystem::permissions(file.path, std::filesystem::perms(0600));
  CHECK(detail::KeyLog(file.path).open());
  const std::string second = file.path + "-second";
  std::filesystem::create_hard_link(file.path, second);
  refused("links are not followed");
  std::filesystem::remove(second);
}

}  // namespace tags_test
