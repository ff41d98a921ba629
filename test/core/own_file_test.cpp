// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/system.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/own_folder.hpp"

using namespace mrc;
using mrc::test::OwnFolder;

namespace own_file_test {

/// 0, or errno of opening it to append.
int error_of(const std::string& path) {
  errno = 0;
  return detail::open_own_file(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600).open() ? 0
                                                                                         : errno;
}

TEST_CASE("own files: new ones and one's own are opened, links and those of others are not") {
  const OwnFolder folder;
  const std::string file = folder.path + "/file", link = folder.path + "/link",
                    dangling = folder.path + "/dangling", second = folder.path + "/second",
                    pipe = folder.path + "/pipe";
  CHECK(error_of(file) == 0);
  CHECK(error_of(file) == 0);
  std::filesystem::create_symlink(file, link);
  CHECK(error_of(link) == ELOOP);
  std::filesystem::create_symlink(folder.path + "/nothing", dangling);
  CHECK(error_of(dangling) == ELOOP);
  CHECK(!std::filesystem::exists(folder.path + "/nothing"));
  std::filesystem::create_hard_link(file, second);
  CHECK(error_of(second) == EPERM);
  std::filesystem::remove(second);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(error_of(pipe) == ENXIO);  // nobody reads
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  CHECK(error_of(pipe) == 0);
  CHECK(error_of("/dev/null") == 0);
  CHECK(error_of(folder.path) == EISDIR);
  if (::geteuid() != 0) return;
  for (const std::string& path : {file, pipe}) {
    REQUIRE(::chown(path.c_str(), 1001, 0) == 0);
    CHECK(error_of(path) == EPERM);
  }
}

}  // namespace own_file_test
