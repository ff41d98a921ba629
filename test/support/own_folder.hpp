// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mrc::test {

/// A folder of the test's own, which goes with it.
struct OwnFolder {
  std::string path = (std::filesystem::temp_directory_path() / "openmrc-test-XXXXXX").string();
  OwnFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() { std::filesystem::remove_all(path); }
};

/// One that describes RDMA devices as the kernel does in /sys/class/infiniband.
struct RdmaFolder : OwnFolder {
  void add(const std::string& device, int port, const std::string& interface,
           const char* state = "4: ACTIVE") const {
    const auto at = std::filesystem::path(path) / device / "ports" / std::to_string(port);
    std::filesystem::create_directories(at / "gid_attrs" / "ndevs");
    std::ofstream(at / "state") << state << '\n';
    std::ofstream(at / "gid_attrs" / "ndevs" / "0") << interface << '\n';
  }
};

}  // namespace mrc::test
