// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "mrc/host/rounds.hpp"
#include "support/own_folder.hpp"

namespace throttle_watch_test {

using mrc::detail::ThrottleWatch;
using mrc::test::OwnFolder;
using namespace std::chrono_literals;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST_CASE("throttle watch: groups of version 2, and of version 1 in a container") {
  const OwnFolder folder;
  const std::filesystem::path root = folder.path;
  write(root / "own", "4:memory:/job\n3:cpu,cpuacct:/host/path/job\n0::/slice/job\n");
  const auto inner = root / "slice" / "job" / "cpu.stat", outer = root / "slice" / "cpu.stat";
  write(inner, "usage_usec 7\nnr_periods 10\nnr_throttled 5\nthrottled_usec 1000\n");
  write(outer, "usage_usec 7\nnr_periods 10\nnr_throttled 0\nthrottled_usec 0\n");
  write(root / "cpu" / "cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 2000\n");
  const ThrottleWatch watch(root, root / "own");
  CHECK_FALSE(watch.look());
  write(root / "cpu" / "cpu.stat", "nr_periods 1\nnr_throttled 4\nthrottled_time 5000\n");
  REQUIRE(watch.look());
  CHECK(watch.look()->group == root / "cpu");
  CHECK(watch.look()->times == 3);
  CHECK(watch.look()->time == 3us);
  write(root / "cpu" / "cpu.stat", "");
  write(outer, "nr_throttled 1\nthrottled_usec 30\n");
  CHECK(watch.look()->group == root / "slice");
  write(inner, "usage_usec 7\nnr_periods 10\nnr_throttled 7\nthrottled_usec 71000\n");
  CHECK(watch.look()->group == root / "slice" / "job");
  CHECK(watch.look()->times == 2);
  CHECK(watch.look()->time == 70ms);
}

TEST_CASE("throttle watch: without control groups nothing is known, and garbage is none") {
  const OwnFolder folder;
  const std::filesystem::path root = folder.path;
  CHECK_FALSE(ThrottleWatch(root, root / "own").look());
  write(root / "own", "\n:\nx:cpu\n0::/../..\n0::/job\n");
  write(root / "job" / "cpu.stat", "nr_throttled many\n\n\n7 7\n");
  CHECK_FALSE(ThrottleWatch(root, root / "own").look());
}

TEST_CASE("throttle watch: of a process's devices, one tells") {
  (void)ThrottleWatch::first_to_tell();
  CHECK_FALSE(ThrottleWatch::first_to_tell());
}

}  // namespace throttle_watch_test
